"""Holders that were asked to leave and do not: when they count as unresponsive, and who of them is killed.

Nobody is, unless the operator chose so; then as few as must leave for the first in the queue.
"""

from __future__ import annotations

from nvshare.scheduler.core.actions import Action, Kill, ReportUnresponsive
from nvshare.scheduler.core.lock.holders import Holders
from nvshare.scheduler.core.lock.leaving import must_leave
from nvshare.scheduler.core.lock.turns import Turns
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.transitions import Step


class Stuck:
    """Those of one device."""

    def __init__(self, holders: Holders, turns: Turns, ledger: Ledger, settings: Settings) -> None:
        self.overdue = 0
        """How many there ever were."""
        self._holders = holders
        self._turns = turns
        self._ledger = ledger
        self._settings = settings

    @property
    def grace_end(self) -> float | None:
        """When the next one counts as unresponsive; None: nobody is leaving."""
        if not self._holders.leaving.count:
            return None
        return self._holders.leaving.first().revoked_at + self._settings.grace_seconds

    def report(self, now: float, actions: list[Action]) -> None:
        """Those that have not left within the grace time are unresponsive."""
        while (grace_end := self.grace_end) is not None and now >= grace_end:
            client = self._holders.leaving.first()
            self._holders.leaving.remove(client)
            client.advance(Step.OVERDUE)
            self.overdue += 1
            self._holders.unresponsive.append(client)
            actions.append(ReportUnresponsive(client.number, client.grant, now - client.revoked_at))

    def kill(self, actions: list[Action]) -> None:
        """Kills as few unresponsive holders as must go for the first in the queue; the killed count as gone."""
        if self._settings.unresponsive is not Unresponsive.KILL or not len(self._turns):
            return
        first = next(filter(self._turns.may_come, self._turns), None)
        alive = [client for client in self._holders.unresponsive if not client.killed]
        # They may have been asked to leave in another order than they came.
        alive.sort(key=lambda client: (client.since, client.grant))
        if first is None or not alive or self._holders.fits((), (*alive, first)):
            return
        lacking = sum(client.account.movable_bytes for client in (*alive, first)) - self._ledger.left_bytes
        for client in must_leave(self._holders.rule, alive, lacking, first):
            client.killed = True
            actions.append(Kill(client.number, client.grant))

"""Who was asked to leave and does not, a holder the lock or another one the memory: when it counts as unresponsive, and
who is killed.

Nobody is, unless the operator chose so; then as few as must leave for who waits, the first in the queue or for memory.

The longer somebody has waited the longer it waits for an unresponsive one as well, before others pass it: else some
that are slow to leave would keep it out for good, since each comes in while another one is late.
"""

from __future__ import annotations

from typing import Final

from nvshare.scheduler.core.actions import Action, Kill, ReportUnresponsive
from nvshare.scheduler.core.lock.holders import Holders
from nvshare.scheduler.core.lock.leaving import must_leave
from nvshare.scheduler.core.lock.service import NEVER
from nvshare.scheduler.core.lock.turns import Turns
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.records.client import Client, Unit
from nvshare.scheduler.core.settings import Settings, Unresponsive
from nvshare.scheduler.core.transitions import ClientState, Step

PATIENCE_SHARE: Final = 1 / 8
"""Of the time that somebody had waited when a holder was asked to leave, that it waits for it at least. So it is passed
over no more once it has waited for eight times as long as the slowest of those who leave at all."""

_LEAVE_YET: Final = (ClientState.HOLDING, ClientState.LEAVING)
"""Holders that may still do as they are told."""


class Stuck:
    """Those of one device."""

    def __init__(
        self, holders: Holders, turns: Turns, ledger: Ledger, residency: Residency, settings: Settings
    ) -> None:
        self.overdue = 0
        """How many there ever were."""
        self._patience_end = NEVER
        """When the next unresponsive one is waited for no more."""
        self._holders = holders
        self._turns = turns
        self._ledger = ledger
        self._residency = residency
        self._settings = settings

    @property
    def keepers(self) -> list[Client]:
        """Those without the lock that have not left the device in time."""
        return [client for client in self._residency.present.clients.values() if client.keeps_room]

    @property
    def end(self) -> float:
        """When the next one is unresponsive, or waited for no more; infinite: not by time alone."""
        return min(self._grace_end, self._patience_end)

    @property
    def _grace_end(self) -> float:
        leaving = self._holders.leaving
        return leaving.first().revoked_at + self._settings.grace_seconds if leaving.count else NEVER

    def listen(self, now: float) -> None:
        """Finds who does not answer what it was told."""
        for client in self._residency.present.clients.values():
            client.listen(silent=self._residency.is_silent(client, now))

    def report(self, now: float, actions: list[Action]) -> None:
        """Those that have not left within the grace time are unresponsive."""
        while now >= self._grace_end:
            client = self._holders.leaving.first()
            self._holders.leaving.remove(client)
            client.advance(Step.OVERDUE)
            self.overdue += 1
            self._holders.unresponsive.append(client)
            actions.append(ReportUnresponsive(client.number, client.grant, now - client.revoked_at))
        self._give_up(now)
        for client in self._residency.present.clients.values():
            kept = client.keeps_room
            client.look(keeps_room=not client.holds and self._residency.is_stuck(client, now))
            if client.keeps_room and not kept:
                self.overdue += 1
                actions.append(ReportUnresponsive(client.number, 0, now - client.memory.progress_at))

    def kill(self, actions: list[Action]) -> None:
        """Kills as few unresponsive holders as must go for the first in the queue; the killed count as gone."""
        if self._settings.unresponsive is not Unresponsive.KILL or not len(self._turns):
            return
        first = next(filter(self._turns.may_come, self._turns), None)
        alive = [client for client in self._holders.overdue() if not client.killed]
        # They may have been asked to leave in another order than they came.
        alive.sort(key=lambda client: (client.since, client.grant))
        if first is None or not alive or self._holders.fits((), *alive, first):
            return
        lacking = sum(client.memory.movable_bytes for client in (*alive, *first.coming)) - self._ledger.left_bytes
        for client in must_leave(self._holders.rule, alive, lacking, first):
            client.kill()
            actions.append(Kill(client.number, client.grant))

    def _give_up(self, now: float) -> None:
        """Finds anew which unresponsive ones are not waited for: those that the first waiter has waited for in vain for
        long, and that is the first which fits beside those; all, where nobody does."""
        self._patience_end = NEVER
        overdue = list(self._holders.overdue())
        for unit in filter(self._turns.may_come, self._turns) if overdue else ():
            patience = {client: self._patience_until(client, unit) for client in overdue}
            self._holders.give_up([client for client in overdue if now >= patience[client]])
            if self._holders.fits_beside_stuck(unit, asleep=False):
                self._patience_end = min((end for end in patience.values() if end > now), default=NEVER)
                return
        self._holders.give_up(overdue)

    def _patience_until(self, client: Client, unit: Unit) -> float:
        """How long a unit in line waits for an unresponsive holder. What one of a gang can't stop for may be the work
        of others, who come in when nobody waits for it."""
        waited_seconds = 0.0 if client.helps else client.revoked_at - unit.since
        return client.revoked_at + max(self._settings.grace_seconds, PATIENCE_SHARE * waited_seconds)

    def kill_for_room(self, actions: list[Action]) -> None:
        """Kills as few that keep the room as must go for who lacks it, though all holders have left."""
        short = self._residency.short
        if self._settings.unresponsive is not Unresponsive.KILL or short is None:
            return
        others = [client for client in self._residency.present.clients.values() if client not in short.unit]
        soon = (client for client in others if client.state in _LEAVE_YET or client.killed)
        lacking = short.lacking_bytes - sum(map(_kept_bytes, soon)) - self._holders.paging_bytes
        alive = [client for client in self.keepers if client in others and not client.killed]
        for client in sorted(alive, key=_kept_bytes, reverse=True):
            if lacking <= 0:
                return
            lacking -= _kept_bytes(client)
            client.kill()
            actions.append(Kill(client.number, 0))


def _kept_bytes(client: Client) -> int:
    return client.memory.charge_bytes

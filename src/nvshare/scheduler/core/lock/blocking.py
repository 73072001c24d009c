"""Which holders block the first waiter, until when, and what they are told of it. The rules are in lock.py."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from nvshare.scheduler.core.actions import Action, TellWaiters
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.lock.holders import Group, Holders
from nvshare.scheduler.core.lock.leaving import must_leave
from nvshare.scheduler.core.lock.service import AT_ONCE, NEVER
from nvshare.scheduler.core.lock.turns import Turns
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.records.client import Client, Unit
from nvshare.scheduler.core.records.gang import Gang
from nvshare.scheduler.core.records.process import REST_SECONDS
from nvshare.scheduler.core.transitions import ClientState

GIVE_WAY_SECONDS: Final = 0.02
"""How long a holder that others wait for is idle before it releases: about what a hand-over without swapping costs."""

COMING_SECONDS: Final = 1.0
"""How long holders that are to leave at once may stay while the memory of who comes next comes in beside theirs."""

QUANTUM_STALLS: Final = 24
"""No quantum is shorter than so many times what the hand-over at its end costs: with drain and changes below 5 %."""

_FoundFor = tuple[Unit, bool, int, Policy, int, Gang | None]
"""First waiter, whether it is known what it needs, the bytes it lacks, the policy, the ``changes`` of the longest
holders, the gang for which it needs the device alone.

Where all are the same, so are the blocking ones.
"""


class Blocking:
    """The blocking holders of one device."""

    def __init__(self, holders: Holders, residency: Residency, turns: Turns) -> None:
        self.clients: dict[int, Client] = {}
        """Those of the longest that must leave, by number, in their order."""
        self._holders = holders
        self._residency = residency
        self._turns = turns
        self.gang: Gang | None = None
        """The first waiter's, if that is on several devices."""
        self._found_for: _FoundFor | None = None
        """What they were found for."""
        self._stall_bytes = 0
        """What has to move for the first waiter when they have left."""
        self.has_sleepers = self.is_sleep_lacking = False
        """Processes of some holders may sleep; and somebody needs memory that is free only then."""
        self.end = NEVER
        """When the turns of the blocking ones are over. Infinite: there are none, or never for the first waiter."""
        self._told_all = False
        """Holders other than the blocking ones may have been told that they are to leave when they are idle."""
        self._plain = True
        """All turns are equally long."""
        self._ordered = False
        """The holders may be in another order than that of their grants."""

    def forget(self) -> None:
        """Nobody blocks any more."""
        self._set(None, [])
        self.end = NEVER

    def may_sleep(self, *, any_may: bool) -> None:
        """Whether processes of some holders may sleep."""
        self.has_sleepers = any_may

    def lack_sleep(self, *, lacks: bool) -> None:
        """Whether somebody needs memory that is free only then."""
        self.is_sleep_lacking = lacks

    def tell(self, moved: Sequence[Client], actions: list[Action], yielding: Set[int], resting: Set[int]) -> None:
        """Tells those for whom ``find`` may have changed the answer, where it did; or all holders, where it may be
        another for other reasons. ``yielding``: those that are to give way when they are idle though nobody waits;
        ``resting``: when they have been idle for longer."""
        parts = bool(self._turns.parts) or self._holders.has_parts
        others = self._turns.service.limited or self.has_sleepers
        told_all, self._told_all = self._told_all, parts or bool(yielding or resting or others)
        if told_all or self._told_all:
            moved = (*moved, *self._holders.holding())
        if not moved:
            return
        waiters, idle_seconds = max(1, len(self._turns)), self.idle_seconds
        for client in moved:
            asked = client.number in self.clients or client.number in yielding
            leaves = asked or self._turns.service.is_limited(client.container)
            rests = not leaves and (client.number in resting or self._is_to_rest(client))
            # Gangs are told as one.
            is_told = (leaves, rests) == (client.told, client.told_to_rest)
            if client.part is None and client.state is ClientState.HOLDING and not is_told:
                client.tell(leaves=leaves, rests=rests)
                if leaves:
                    actions.append(TellWaiters(client.number, waiters, idle_seconds))
                else:
                    actions.append(TellWaiters(client.number, 0, REST_SECONDS if rests else 0.0))

    def _is_to_rest(self, client: Client) -> bool:
        return client.process is not None and (client.process.is_to_rest or self.is_sleep_lacking)

    def find(self, first: Unit | None, *, grows: bool = False) -> Sequence[Client]:
        """Finds anew which holders block the first waiter; returns all for which the answer may have changed.

        ``grows``: it does not come in, but needs memory that they have, whatever its gang does.
        """
        self._plain = first is None or self._turns.is_plain(first)
        if first is not None and (self._ordered or not self._plain):
            self._order(first)
        self._holders.arrange(first)
        self.gang = first.gang if first is not None and first.is_wide and not grows else None
        if first is None or not self._holders.longest.count:
            self._stall_bytes = 0
            return self._set(None, [])
        coming, changes = first.coming, self._holders.longest.changes
        lacking = self._holders.lacking_bytes(coming)
        if self._holders.squeezed is not None:
            lacking += self._holders.squeeze_bytes(first)
        found_for = (first, first.needed_bytes is not None, lacking, self._holders.rule, changes, self.gang)
        if found_for == self._found_for:
            return ()
        self._stall_bytes = 0
        if self._residency.clients:
            self._stall_bytes = min(lacking, _swapping_bytes(coming, self._holders.longest))
            if not grows:
                self._turns.service.worth(coming[0], self.least_seconds)
        return self._set(found_for, must_leave(self._holders.rule, list(self._holders.longest), lacking, first))

    def _set(self, found_for: _FoundFor | None, blocking: list[Client]) -> list[Client]:
        # Those that left meanwhile block no more.
        longest, others = self._holders.longest, self._holders.others
        moved = [client for client in reversed(self.clients.values()) if client in longest or client in others]
        self._found_for = found_for
        self.clients = {client.number: client for client in blocking}
        return moved + blocking

    def _stall_seconds(self) -> float:
        """How long the hand-over to the first waiter will take, as far as nothing can be moved before it."""
        return self._residency.traffic.seconds(self._stall_bytes) if self._stall_bytes > 0 else 0.0

    @property
    def least_seconds(self) -> float:
        """How long the shortest quantum is that is worth the hand-over to the first waiter."""
        return QUANTUM_STALLS * self._stall_seconds()

    def worth_seconds(self, waiter: Unit) -> float:
        """How long a turn of a waiter must be to be worth the hand-over, if it came next."""
        lacking = self._holders.lacking_bytes(waiter.coming)
        swapping = _swapping_bytes(waiter.coming, self._holders.longest, self._holders.others)
        return QUANTUM_STALLS * self._residency.traffic.seconds(min(lacking, swapping))

    def find_end(self) -> None:
        """Finds ``end`` anew."""
        if not self.clients or self._found_for is None:
            self.end = NEVER
            return
        if self.gang is not None:
            self.end = self.gang.due_at
            return
        first = self._found_for[0]
        self.end = self._end_of(self._holders.longest.last(), first)
        if self.end == AT_ONCE:
            is_out = any(client.memory.swaps and not client.memory.is_in for client in first.coming)
            comes_in = is_out and self._stall_bytes <= 0
            self.end = first.since + (COMING_SECONDS if comes_in else 0.0)

    def free_at(self) -> float:
        """When the turns are over of those that block a gang, the first waiter, but for those that borrowed theirs."""
        if not self.clients or self._found_for is None:
            return AT_ONCE
        holders = [client for client in self._holders.longest if self.gang not in client.stay.borrowed]
        return self._end_of(holders[-1], self._found_for[0]) if holders else AT_ONCE

    @property
    def idle_seconds(self) -> float:
        """How long a blocking one is to be idle before it leaves by itself."""
        return max(GIVE_WAY_SECONDS, self._stall_seconds())

    def _end_of(self, holder: Client, first: Unit) -> float:
        if self._plain:
            return holder.since + max(self._turns.service.quantum_seconds, self.least_seconds)
        return self._turns.end(holder, first, self.least_seconds)

    def push(self, now: float) -> None:
        """The blocking ones are asked to leave."""
        if self._plain or self._found_for is None:
            return
        self._turns.push(self._found_for[0], self.clients.values(), self.least_seconds, now)

    def _order(self, first: Unit) -> None:
        """Brings the holders into the order in which their turns end; of those to leave at once, low classes first."""
        self._ordered = not self._plain
        least_seconds = self.worth_seconds(first) if self._residency.clients else 0.0

        def end(client: Client) -> tuple[float, int, float, int]:
            return self._turns.end(client, first, least_seconds), client.priority, client.since, client.grant

        self._holders.sort(end)


def _swapping_bytes(coming: Sequence[Client], *groups: Group) -> int:
    """How much swaps of what comes in with these; where nothing of it does, of what leaves with those groups."""
    if any(client.memory.swaps for client in coming):
        return sum(client.memory.movable_bytes for client in coming if client.memory.swaps)
    return sum(group.movable_bytes - group.paging_bytes for group in groups)

"""Admission: what may be allocated so that every client can still be wholly on the device, one at a time.

- A footprint is admitted when it fits beside the unmovable memory of all clients, with some headroom for contexts that
  may still come.
- Unmovable memory, a context included, is admitted when the footprint that each client was admitted still fits beside
  it. A context may count on the reserve for that, and on the memory of contexts that wait as it does: it comes first.
- For whichever client is on the device as much of the others must be able to leave as lacks then: there has to be host
  memory for it. What the host has no memory for is refused; what it has is waited for until it is there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.core.arenas import AHEAD_SHARE, GRANULE_BYTES, SEGMENT_BYTES, Arena, can_leave, fill
from nvshare.scheduler.core.events import GrowthRequested
from nvshare.scheduler.core.ledger import Ledger
from nvshare.scheduler.core.snapshot import HostMemory
from nvshare.scheduler.core.swap import Swap

SLACK_BYTES: Final = 64 << 20
"""How much more than it asked for a client is admitted, or SLACK_SHARE of it if that is more: many small allocations
do not ask each."""
SLACK_SHARE: Final = 1 / 16
MIB: Final = 1 << 20


@dataclass(slots=True, eq=False)
class Host:
    """The host memory of all devices' clients."""

    budget_bytes: int
    used_bytes: int = 0
    departed_bytes: int = 0
    """Of it, what clients had that are gone; it will be free."""

    @property
    def available_bytes(self) -> int:
        """What may be made, now or when the memory of those that are gone is free."""
        return self.budget_bytes - self.used_bytes + self.departed_bytes

    def snapshot(self) -> HostMemory:
        """What can be seen of it."""
        return HostMemory(self.budget_bytes, self.used_bytes)


class Admission:
    """The admissions of one device."""

    def __init__(self, ledger: Ledger, host: Host) -> None:
        self._ledger = ledger
        self._host = host
        self._arenas_for: tuple[int, ...] = ()
        """What the arenas were last looked at for; where nothing of it changed, there is nothing to make."""

    def capacity_bytes(self, swap: Swap) -> int:
        """The most that a client's footprint could be admitted now."""
        return max(swap.admitted_bytes, self._ledger.left_bytes - self._ledger.headroom_bytes)

    def refusal(self, swap: Swap, growth: GrowthRequested, clients: Collection[Swap]) -> str | None:
        """Why a growth is not possible; None: it is, maybe not at once."""
        ledger = self._ledger
        fixed = max(0, growth.fixed_bytes - swap.fixed_bytes)
        if _is_had(swap, growth):
            return None
        left = self._left(swap, clients) - fixed
        if growth.footprint_bytes > swap.admitted_bytes:
            most = left - max(0, ledger.headroom_bytes - fixed)
            if growth.footprint_bytes > most:
                return f"{growth.footprint_bytes // MIB} MiB do not fit the device, {max(0, most) // MIB} MiB would"
        if fixed or not swap.has_context:
            left += self._reserve(swap, growth)
            for other in clients:
                if other.admitted_bytes > left:
                    return f"client {other.number} with its {other.admitted_bytes // MIB} MiB would not fit any more"
        arenas, lacking = self._arenas(swap, growth, left, clients)
        own = sum(arena.bytes for arena in arenas)
        if lacking > 0 and can_leave(fill(arenas, self._host.available_bytes + own)) < lacking:
            return f"the host has not {lacking // MIB} MiB to swap into"
        return None

    def is_ready(self, swap: Swap, growth: GrowthRequested, clients: Collection[Swap]) -> bool:
        """Whether there is the host memory for a growth that is possible."""
        if _is_had(swap, growth):
            return True
        fixed = max(0, growth.fixed_bytes - swap.fixed_bytes)
        left = self._left(swap, clients) - fixed
        left += self._reserve(swap, growth)
        arenas, lacking = self._arenas(swap, growth, left, clients)
        return lacking <= 0 or can_leave(arenas) >= lacking

    def admitted_bytes(self, swap: Swap, growth: GrowthRequested, clients: Collection[Swap]) -> int:
        """How much footprint to admit for a growth that is ready: with slack where that costs no host memory."""
        wanted = max(growth.footprint_bytes, swap.admitted_bytes)
        slack = max(SLACK_BYTES, int(wanted * SLACK_SHARE))
        slack = min(slack, self.capacity_bytes(swap) - wanted) // GRANULE_BYTES * GRANULE_BYTES
        if growth.footprint_bytes <= swap.admitted_bytes or slack <= 0:
            return wanted
        more = GrowthRequested(swap.number, growth.request, wanted + slack, growth.fixed_bytes)
        return wanted + slack if self.is_ready(swap, more, clients) else wanted

    def grow_arenas(self, clients: Collection[Swap]) -> list[GrowArena]:
        """Which host memory to make, ahead of need."""
        lacking = sum(_wanted(client) + _wanted_fixed(client) for client in clients) - self._ledger.left_bytes
        if lacking <= -self._ledger.total_bytes * AHEAD_SHARE or self._host.used_bytes >= self._host.budget_bytes:
            return []
        arenas = [Arena(client.arena_bytes + client.arena_asked_bytes, _wanted(client)) for client in clients]
        asked = (client.arena_asked_bytes for client in clients)
        reported = (client.reported for client in clients)
        sizes = (size for arena in arenas for size in (arena.bytes, arena.useful_bytes))
        found_for = (self._host.budget_bytes - self._host.used_bytes, *sizes, *asked, *reported)
        if found_for == self._arenas_for:
            return []
        self._arenas_for = found_for
        own = sum(arena.bytes for arena in arenas)
        left = self._host.budget_bytes - self._host.used_bytes
        made: list[GrowArena] = []
        for client, arena, goal in zip(clients, arenas, fill(arenas, left + own), strict=True):
            more = min(goal.bytes - arena.bytes, SEGMENT_BYTES, left)
            # Who comes back may have some already, and says so.
            if more > 0 and client.reported and not client.arena_asked_bytes:
                client.arena_asked_bytes = more
                self._host.used_bytes += more
                left -= more
                made.append(GrowArena(client.number, more))
        return made

    def _left(self, swap: Swap, clients: Collection[Swap]) -> int:
        """What is left for what can move, without the contexts that are not admitted yet, but for its own.

        What the gone had will be free.
        """
        waiting = (other.account.pinned_bytes for other in clients if not other.has_context)
        own = 0 if swap.has_context else swap.account.pinned_bytes
        return self._ledger.left_bytes + self._ledger.departed_bytes + sum(waiting) - own

    def _reserve(self, swap: Swap, growth: GrowthRequested) -> int:
        """What of the reserve counts for a growth: all of it if that is nothing but a context."""
        more = growth.footprint_bytes > swap.admitted_bytes or growth.fixed_bytes > swap.fixed_bytes
        return 0 if more or swap.has_context else self._ledger.reserve_bytes

    def _arenas(
        self, swap: Swap, growth: GrowthRequested, left: int, clients: Collection[Swap]
    ) -> tuple[list[Arena], int]:
        """All arenas, and how much must be able to leave, with the growth."""
        arenas = []
        lacking = -left
        for other in clients:
            useful = _useful(other)
            if other is swap:
                useful = max(useful, growth.footprint_bytes)
            lacking += useful
            arenas.append(Arena(other.arena_bytes, useful))
        # Beside the largest no more can leave than the others have; it is alone then, and has the reserve.
        sizes = [arena.useful_bytes for arena in arenas]
        return arenas, min(lacking, sum(sizes) - max(sizes))


def _is_had(swap: Swap, growth: GrowthRequested) -> bool:
    """Whether nothing is asked for that was not admitted before."""
    return swap.has_context and growth.footprint_bytes <= swap.admitted_bytes and growth.fixed_bytes <= swap.fixed_bytes


def _wanted(swap: Swap) -> int:
    """The most that host memory can be of use to a client, a growth that waits included."""
    return _useful(swap) if swap.growth is None else max(_useful(swap), swap.growth.footprint_bytes)


def _wanted_fixed(swap: Swap) -> int:
    return 0 if swap.growth is None else max(0, swap.growth.fixed_bytes - swap.fixed_bytes)


def _useful(swap: Swap) -> int:
    return -(-swap.admitted_bytes // GRANULE_BYTES) * GRANULE_BYTES

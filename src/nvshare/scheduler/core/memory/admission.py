"""Admission: what may be allocated so that every client can still be wholly on the device, one at a time.

- A footprint is admitted when it fits beside the unmovable memory of all clients, with some headroom for contexts that
  may still come.
- Unmovable memory, a context included, is admitted when the footprint that each client was admitted still fits beside
  it. A context may count on the reserve for that, and on the memory of contexts that wait as it does: it comes first.
- What is granted of memory requests (requests.py) counts as not there for the clients of other containers.
- What a context takes that was made lately is only assumed; what others may allocate without asking and have not can be
  taken back; what clients had that are gone will be free. Where nothing else is in the way a growth waits: only what is
  certain refuses.
- For whichever client is on the device as much of the others must be able to leave as lacks then: there has to be host
  memory for it. What the host has no memory for is refused; what it has is waited for until it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.core.events import GrowthRequested
from nvshare.scheduler.core.memory.arenas import AHEAD_SHARE, GRANULE_BYTES, SEGMENT_BYTES, Arena, Host, can_leave, fill
from nvshare.scheduler.core.memory.estates import Estate, Estates
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.limits import Limits
from nvshare.scheduler.core.memory.present import Present
from nvshare.scheduler.core.memory.requests import Requests
from nvshare.scheduler.core.memory.swap import CONTEXT_KNOWN_SECONDS, Swap

UNASKED_BYTES: Final = 64 << 20
"""How much more than it asked for a client is admitted, or UNASKED_SHARE of it if that is more: many small allocations
do not ask each."""
UNASKED_SHARE: Final = 1 / 16
MIB: Final = 1 << 20


class Admission:
    """The admissions of one device."""

    def __init__(
        self, ledger: Ledger, host: Host, estates: Estates, grace_seconds: float, limits: Limits, requests: Requests
    ) -> None:
        self._ledger = ledger
        self._limits = limits
        self._requests = requests
        self._host = host
        self._estates = estates
        self._grace_seconds = grace_seconds
        self._arenas_for: tuple[int, ...] = ()
        """What the arenas were last looked at for; where nothing of it changed, there is nothing to make."""

    def capacity_bytes(self, swap: Swap) -> int:
        """The most that a client's footprint could be admitted now."""
        kept_bytes = self._requests.others_bytes([swap.number])
        return max(swap.admitted_bytes, self._ledger.left_bytes - self._ledger.headroom_bytes() - kept_bytes)

    def refusal(self, swap: Swap, growth: GrowthRequested, clients: Collection[Swap], now: float) -> str | None:
        """Why a growth is not possible; None: it is, maybe not at once."""
        if _is_had(swap, growth):
            return None
        if (reason := self.limit_refusal(swap, now)) is not None:
            return reason
        hoped = sum(client.account.pinned_bytes for client in self._unmeasured(clients, now))
        left = self._left(swap, growth, clients) + self._ledger.departed_bytes + hoped
        most = self._most(swap, growth, left, hoped)
        if most < growth.footprint_bytes:
            return self._requests.refusal(swap.number, most)
        left_for_requests = left
        left += self._reserve(swap, growth)
        for other in clients if _takes_from_others(swap, growth) else ():
            needed = other.pledged_bytes if self._is_stuck(other, now) else other.footprint_bytes
            if max(needed, growth.footprint_bytes if other is swap else 0) > left:
                owner = "its own" if other is swap else f"client {other.number}'s"
                return f"{owner} {needed // MIB} MiB that swap would not fit the device any more"
            stays = _more_that_stays(swap, growth)
            if reason := self._requests.takes(swap.number, stays, other.number, needed, left_for_requests):
                return reason
        arenas, lacking = self._arenas(swap, growth, left, clients, coming=True)
        own = sum(arena.bytes for arena in arenas)
        arenas = fill(arenas, self._host.available_bytes + own)
        if lacking > 0 and can_leave(arenas) < lacking:
            return f"host memory to swap {lacking // MIB} MiB into is not left (--host-memory)"
        if self._crowds(swap, growth, clients, arenas, left_for_requests, hoped):
            return "host memory to swap into is not left beside what is reserved for others (--host-memory)"
        return None

    def limit_refusal(self, swap: Swap, now: float) -> str | None:
        """Why the limit of its container refuses the growth that a client asked for; None: it does not."""
        growth = swap.growth
        if growth is None or not _is_more(swap, growth):
            return None
        return self._limits.refusal(swap, growth, lambda other: self._is_stuck(other, now))

    def in_the_way(self, swap: Swap, clients: Collection[Swap], now: float) -> list[Swap]:
        """Whose memory may be why a growth is not possible."""
        if self.limit_refusal(swap, now) is None or swap.growth is None:
            return [other for other in clients if other is not swap]
        return self._limits.in_the_way(swap, swap.growth)

    def is_ready(self, swap: Swap, growth: GrowthRequested, clients: Collection[Swap], now: float) -> bool:
        """Whether a growth that is possible is so by what is measured, free, and there of host memory already."""
        if _is_had(swap, growth):
            return True
        if _is_more(swap, growth) and not self._limits.is_left(swap, growth):
            return False
        left = left_for_requests = self._left(swap, growth, clients)
        if self._most(swap, growth, left) < growth.footprint_bytes:
            return False
        left += self._reserve(swap, growth)
        if _takes_from_others(swap, growth):
            if any(other.pledged_bytes > left for other in clients):
                return False
            stays = _more_that_stays(swap, growth)
            needs = ((other.number, other.pledged_bytes) for other in clients)
            if any(self._requests.takes(swap.number, stays, *each, left_for_requests) for each in needs):
                return False
            # Who comes back has not said yet what it has that can't move.
            if any(not other.reported and not self._is_stuck(other, now) for other in clients):
                return False
            if any(estate.pledged_bytes > left + estate.charge_bytes for estate in self._estates):
                return False
        arenas, lacking = self._arenas(swap, growth, left, clients, estates=self._estates)
        if lacking > 0 and can_leave(arenas) < lacking:
            return False
        pledged = [other.useful_bytes for other in clients] + [0] * (len(arenas) - len(clients))
        arenas = [Arena(each.bytes, max(each.useful_bytes, size)) for each, size in zip(arenas, pledged, strict=True)]
        return not self._crowds(swap, growth, clients, arenas, left_for_requests)

    def changes_at(self, clients: Collection[Swap], now: float) -> float | None:
        """When a growth that is not ready may be refused if nothing happens before; None: never."""
        moments = [client.context_at + CONTEXT_KNOWN_SECONDS for client in self._unmeasured(clients, now)]
        moments += [
            client.progress_at + self._grace_seconds
            for client in clients
            if _is_unheard(client) and not self._is_stuck(client, now)
        ]
        return min(moments, default=None)

    def admitted_bytes(self, swap: Swap, growth: GrowthRequested, clients: Collection[Swap], now: float) -> int:
        """How much footprint to admit for a growth that is ready: with slack where that costs no host memory."""
        wanted = max(growth.footprint_bytes, swap.admitted_bytes)
        slack = max(UNASKED_BYTES, int(wanted * UNASKED_SHARE))
        slack = min(slack, self.capacity_bytes(swap) - wanted) // GRANULE_BYTES * GRANULE_BYTES
        if growth.footprint_bytes <= swap.admitted_bytes or slack <= 0 or self._limits.is_limited(swap.number):
            return wanted
        if self._requests.is_pressed(swap.number):
            return wanted
        more = GrowthRequested(swap.number, growth.request, wanted + slack, growth.fixed_bytes)
        return wanted + slack if self.is_ready(swap, more, clients, now) else wanted

    def take_back(
        self, clients: Collection[Swap], present: Present, every: Callable[[], Collection[Swap]]
    ) -> list[Swap]:
        """Takes back what is admitted and too much now; from whom.

        ``clients``: those that are present; ``every``: all of the device's.
        """
        left = self._ledger.left_bytes - max((swap.more_fixed_bytes for swap in clients), default=0)
        if self._limits or self._requests.granted_bytes or not present.are_all_within(left):
            clients = every()
        found = []
        for swap in clients:
            most = self._most_admitted_bytes(swap, left)
            if swap.admitted_bytes > most and swap.reported:
                swap.admitted_bytes = most
                found.append(swap)
        return found

    def _most_admitted_bytes(self, swap: Swap, left_bytes: int) -> int:
        """What a client may stay admitted where ``left_bytes`` are left for it beside what comes.

        Where others need it all that it does not use is taken back, once it went by the last growth that was granted.
        """
        pressed = self._limits.is_pressed(swap.number) or self._requests.is_pressed(swap.number)
        if swap.going_by >= swap.grown_order and pressed:
            # Not for its own growth either: another may wait for that, as it waits for what the other keeps for its.
            return swap.footprint_bytes
        asked = max(swap.footprint_bytes, 0 if swap.growth is None else swap.growth.footprint_bytes)
        return max(asked, left_bytes)

    def grow_arenas(self, clients: Collection[Swap], resting_bytes: int) -> list[GrowArena]:
        """Which host memory to make, ahead of need; ``resting_bytes``: what others have that need no more."""
        if self._host.awaited:
            return []
        wanted = resting_bytes + sum(_wanted(client) + _wanted_fixed(client) for client in clients)
        # For managed memory others leave as well: it moves by itself, but never pushes out what swaps.
        lacking = wanted + self._ledger.paging_bytes + self._requests.unused_bytes - self._ledger.left_bytes
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

    def _unmeasured(self, clients: Collection[Swap], now: float) -> list[Swap]:
        """Whose context there is, of a size that will soon be known."""
        if not self._ledger.total_measured:
            return []
        return [
            client
            for client in clients
            if client.has_context
            and not client.account.pinned_measured
            and now < client.context_at + CONTEXT_KNOWN_SECONDS
        ]

    def _is_stuck(self, client: Swap, now: float) -> bool:
        """Whether it does not say what it goes by."""
        return _is_unheard(client) and now >= client.progress_at + self._grace_seconds

    def _left(self, swap: Swap, growth: GrowthRequested, clients: Collection[Swap]) -> int:
        """What would be left for what can move, without the contexts that are not admitted yet, but for its own."""
        waiting = (other.account.pinned_bytes for other in clients if not other.has_context)
        own = 0 if swap.has_context else swap.account.pinned_bytes
        fixed = _more_fixed(swap, growth)
        return self._ledger.left_bytes + sum(waiting) - own - fixed

    def _most(self, swap: Swap, growth: GrowthRequested, left: int, hoped: int = 0) -> int:
        """How large its footprint may become where so much is left; of what is pinned ``hoped`` may turn out free."""
        if growth.footprint_bytes <= swap.admitted_bytes:
            return swap.admitted_bytes
        pinned = _more_fixed(swap, growth) - hoped
        if kept := self._requests.others_bytes([swap.number]):
            return left - kept - self._requests.headroom_bytes(swap.number, pinned)
        return left - self._ledger.headroom_bytes(pinned)

    def _crowds(
        self,
        swap: Swap,
        growth: GrowthRequested,
        clients: Collection[Swap],
        arenas: Collection[Arena],
        left: int,
        hoped: int = 0,
    ) -> bool:
        """Whether what a request keeps would not be beside all, with all arenas; the first ones are the clients'."""
        numbers = [client.number for client in clients] + [0] * (len(arenas) - len(clients))
        pinned, stays = _more_fixed(swap, growth) - hoped, _more_that_stays(swap, growth)
        return self._requests.crowd(swap.number, stays, pinned, zip(numbers, arenas, strict=True), left)

    def _reserve(self, swap: Swap, growth: GrowthRequested) -> int:
        """What of the reserve counts for a growth: all of it if that is nothing but a context."""
        return 0 if _is_more(swap, growth) or swap.has_context else self._ledger.reserve_bytes

    def _arenas(
        self,
        swap: Swap,
        growth: GrowthRequested,
        left: int,
        clients: Collection[Swap],
        *,
        coming: bool = False,
        estates: Iterable[Estate] = (),
    ) -> tuple[list[Arena], int]:
        """All arenas, and how much must be able to leave, with the growth.

        ``coming``: with what is being made; ``estates``: with those who may come back.
        """
        arenas = []
        lacking = -left
        for other in clients:
            useful = _useful(other)
            if other is swap:
                useful = max(useful, growth.footprint_bytes)
            lacking += useful
            arenas.append(Arena(other.arena_bytes + (other.arena_asked_bytes if coming else 0), useful))
        for estate in estates:
            lacking += estate.pledged_bytes - estate.charge_bytes
            arenas.append(Arena(estate.arena_bytes, estate.pledged_bytes))
        # Beside the largest no more can leave than the others have; it is alone then, and has the reserve.
        sizes = [arena.useful_bytes for arena in arenas]
        return arenas, min(lacking, sum(sizes) - max(sizes))


def _is_had(swap: Swap, growth: GrowthRequested) -> bool:
    """Whether nothing is asked for that was not admitted before."""
    return swap.has_context and growth.footprint_bytes <= swap.admitted_bytes and growth.fixed_bytes <= swap.fixed_bytes


def _is_more(swap: Swap, growth: GrowthRequested) -> bool:
    """Whether more than a context is asked for."""
    return growth.footprint_bytes > swap.admitted_bytes or growth.fixed_bytes > swap.fixed_bytes


def _more_fixed(swap: Swap, growth: GrowthRequested) -> int:
    return max(0, growth.fixed_bytes - swap.fixed_bytes)


def _more_that_stays(swap: Swap, growth: GrowthRequested) -> int:
    """What there would be more on the device whoever is wholly in."""
    return _more_fixed(swap, growth) + (0 if swap.has_context else swap.account.pinned_bytes)


def _takes_from_others(swap: Swap, growth: GrowthRequested) -> bool:
    """Whether it leaves less for what others have that moves."""
    return not swap.has_context or growth.fixed_bytes > swap.fixed_bytes


def _is_unheard(client: Swap) -> bool:
    """Whether it has not said yet that it goes by what it was told."""
    return not client.reported or client.going_by < client.order


def _wanted(swap: Swap) -> int:
    """The most that host memory can be of use to a client, a growth included that waits and is possible."""
    growth = None if swap.in_doubt else swap.growth
    return _useful(swap) if growth is None else max(_useful(swap), growth.footprint_bytes)


def _wanted_fixed(swap: Swap) -> int:
    return 0 if swap.growth is None or swap.in_doubt else _more_fixed(swap, swap.growth)


def _useful(swap: Swap) -> int:
    return -(-swap.admitted_bytes // GRANULE_BYTES) * GRANULE_BYTES

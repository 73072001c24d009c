"""Admission: **the rules** of what may be allocated.

One question has all of them: does a growth fit (``_lacks``)? It is asked with two views of what is not certain
(view.py). What does not fit even at best is refused. What fits even at worst is granted. What is between waits until
more is known. A growth fits if each of this does:

1. *Limit.* What its container's processes have, with the growth, is within the container's limit (limits.py).
2. *Itself.* Its footprint fits beside the unmovable memory of all clients and what is granted of others' memory
   requests (requests.py), with some headroom for contexts that may still come.
3. *Others.* The footprint of each client still fits beside all unmovable memory, a context included. So every client
   can be wholly on the device, one at a time. A context may count on the reserve, and on the memory of contexts that
   wait as it does: it comes first.
4. *Host memory.* Whichever client is wholly in, as much of the others can leave as lacks then.
5. *Requests.* What is granted of memory requests is still there beside all that, host memory as it is.

What a client was admitted it may allocate without asking. Where that is too much now, it is taken back (``take_back``);
what it has not used of it counts at worst only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.core.memory.estates import Estates
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.limits import Limits
from nvshare.scheduler.core.memory.present import Present
from nvshare.scheduler.core.memory.requests import Requests
from nvshare.scheduler.core.memory.view import View
from nvshare.scheduler.core.records.arenas import (
    AHEAD_SHARE,
    GRANULE_BYTES,
    SEGMENT_BYTES,
    Arena,
    Host,
    can_leave,
    fill,
    whole,
)
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.swap import CONTEXT_KNOWN_SECONDS, Swap

UNASKED_BYTES: Final = 64 << 20
"""How much more than it asked for a client is admitted, or UNASKED_SHARE of it if that is more: many small allocations
do not ask each."""
UNASKED_SHARE: Final = 1 / 16
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Refusal:
    """A growth that is not possible."""

    reason: str
    others: Collection[Swap]
    """Whose memory may be why."""
    limited: bool = False
    """It passes the limit of its container."""


class Admission:
    """The admissions of one device."""

    def __init__(
        self,
        ledger: Ledger,
        host: Host,
        estates: Estates,
        clients: Mapping[int, Client],
        grace_seconds: float,
        limits: Limits,
        requests: Requests,
    ) -> None:
        """``clients``: those whose memory swaps."""
        self._ledger, self._host, self._estates, self._clients = ledger, host, estates, clients
        self._grace_seconds, self._limits, self._requests = grace_seconds, limits, requests

    @property
    def swaps(self) -> list[Swap]:
        """The records of all whose memory swaps."""
        return [client.swap for client in self._clients.values() if client.swap is not None]

    def capacity_bytes(self, swap: Swap) -> int:
        """The most that a client's footprint could be admitted now."""
        kept_bytes = self._requests.others_bytes([swap.number])
        return max(swap.admitted_bytes, self._ledger.left_bytes - self._ledger.headroom_bytes() - kept_bytes)

    def refusal(self, swap: Swap, now: float) -> Refusal | None:
        """Why the growth that a client asked for is not possible, not even at best; None: it is, maybe not at once."""
        assumed_bytes = sum(each.account.pinned_bytes for each in self._unmeasured(now))
        free_bytes = assumed_bytes + self._ledger.departed_bytes
        return self._lacks(swap, View(True, self._stuck(now), assumed_bytes, free_bytes, self._host.available_bytes))

    def is_ready(self, swap: Swap, now: float, slack_bytes: int = 0) -> bool:
        """Whether the growth that a client asked for is possible even at worst; if it were so much larger."""
        return self._lacks(swap, View(False, self._stuck(now), gone=tuple(self._estates)), slack_bytes) is None

    def _lacks(self, swap: Swap, view: View, slack_bytes: int = 0) -> Refusal | None:
        """Why a growth does not fit as a view has it, by the rules in the order of the module's text; None: it fits."""
        growth = swap.growth
        assert growth is not None
        footprint_bytes, fixed_bytes = growth.footprint_bytes + slack_bytes, swap.more_fixed_bytes
        is_more = footprint_bytes > swap.admitted_bytes or fixed_bytes > 0
        if swap.has_context and not is_more:
            return None
        if is_more and (reason := self._limits.lacks(swap, growth, view)):
            return Refusal(reason, self._limits.in_the_way(swap, growth), limited=True)
        swaps, ledger, requests = self.swaps, self._ledger, self._requests
        others = [other for other in swaps if other is not swap]
        # The contexts that are not admitted yet come after this.
        later_bytes = sum(other.account.pinned_bytes for other in others if not other.has_context)
        left = ledger.left_bytes + later_bytes + view.free_bytes - fixed_bytes
        allowed = left - ledger.headroom_bytes(fixed_bytes - later_bytes - view.assumed_bytes)
        most = allowed - requests.others_bytes([swap.number])
        left += 0 if is_more else ledger.reserve_bytes
        sizes = [max(view.movable_bytes(each, left), footprint_bytes if each is swap else 0) for each in swaps]
        made = [Arena(view.arena_bytes(each), whole(size)) for each, size in zip(swaps, sizes, strict=True)]
        numbers = [each.number for each in swaps] + [0] * len(view.gone)
        arenas = fill(made, view.host_bytes) + [Arena(each.arena_bytes, each.pledged_bytes) for each in view.gone]
        reason = (
            (requests.refusal(swap.number, most) if most < footprint_bytes > swap.admitted_bytes else None)
            or (_keeps_out(swap, swaps, sizes, left, view) if swap.more_unmovable_bytes else None)
            or _cannot_leave(arenas, left + sum(each.charge_bytes for each in view.gone))
            or requests.lacks(swap, list(zip(numbers, arenas, strict=True)), allowed)
        )
        return None if reason is None else Refusal(reason, others)

    def changes_at(self, now: float) -> float | None:
        """When a growth that is not ready may be refused if nothing happens before; None: never."""
        moments = [each.context_at + CONTEXT_KNOWN_SECONDS for each in self._unmeasured(now)]
        awaited = (each.progress_at + self._grace_seconds for each in self.swaps if not each.is_heard)
        return min([*moments, *(moment for moment in awaited if moment > now)], default=None)

    def admitted_bytes(self, swap: Swap, now: float) -> int:
        """How much footprint to admit for a growth that is ready: with slack where that costs no host memory."""
        assert swap.growth is not None
        wanted = max(swap.growth.footprint_bytes, swap.admitted_bytes)
        slack = max(UNASKED_BYTES, int(wanted * UNASKED_SHARE))
        slack = min(slack, self.capacity_bytes(swap) - wanted) // GRANULE_BYTES * GRANULE_BYTES
        if swap.growth.footprint_bytes <= swap.admitted_bytes or slack <= 0 or self._limits.is_limited(swap.number):
            return wanted
        if self._requests.is_pressed(swap.number) or not self.is_ready(swap, now, slack):
            return wanted
        return wanted + slack

    def take_back(self, clients: Collection[Swap], present: Present) -> list[Swap]:
        """Takes back what is admitted and too much now; from whom. ``clients``: those that are present."""
        left = self._ledger.left_bytes - max((swap.more_fixed_bytes for swap in clients), default=0)
        if self._limits or self._requests.granted_bytes or not present.are_all_within(left):
            clients = self.swaps
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
        useful = [_useful_bytes(client) for client in clients]
        fixed_bytes = sum(client.more_fixed_bytes for client in clients if client.growth and not client.in_doubt)
        wanted = resting_bytes + sum(useful) + fixed_bytes
        # For managed memory others leave as well: it moves by itself, but never pushes out what swaps.
        lacking = wanted + self._ledger.paging_bytes + self._requests.unused_bytes - self._ledger.left_bytes
        left = self._host.budget_bytes - self._host.used_bytes
        if lacking <= -self._ledger.total_bytes * AHEAD_SHARE or left <= 0:
            return []
        there = [client.arena_bytes + client.arena_asked_bytes for client in clients]
        arenas = [Arena(*sizes) for sizes in zip(there, useful, strict=True)]
        if all(arena.bytes >= arena.useful_bytes for arena in arenas):
            return []
        made: list[GrowArena] = []
        for client, arena, goal in zip(clients, arenas, fill(arenas, left), strict=True):
            more = min(goal.bytes - arena.bytes, SEGMENT_BYTES, left)
            # Who comes back may have some already, and says so.
            if more > 0 and client.reported and not client.arena_asked_bytes:
                client.arena_asked_bytes = more
                self._host.used_bytes += more
                left -= more
                made.append(GrowArena(client.number, more))
        return made

    def _unmeasured(self, now: float) -> list[Swap]:
        """Whose context there is, of a size that will soon be known."""
        return [each for each in self.swaps if each.is_unmeasured(now)] if self._ledger.total_measured else []

    def _stuck(self, now: float) -> frozenset[int]:
        """Who does not say what it goes by."""
        late = (each for each in self.swaps if now >= each.progress_at + self._grace_seconds)
        return frozenset(each.number for each in late if not each.is_heard)


def _keeps_out(swap: Swap, swaps: Sequence[Swap], sizes: Sequence[int], left_bytes: int, view: View) -> str | None:
    """Who would not be wholly on the device any more, with what has these sizes, where so much is left for it."""
    for each, size in zip(swaps, sizes, strict=True):
        if size > left_bytes or view.is_unknown(each):
            owner = "its own" if each is swap else f"client {each.number}'s"
            return f"{owner} {size // MIB} MiB that swap would not fit the device any more"
    if any(estate.pledged_bytes > left_bytes + estate.charge_bytes for estate in view.gone):
        return "what one that is gone may come back with would not fit the device any more"
    return None


def _cannot_leave(arenas: Sequence[Arena], left_bytes: int) -> str | None:
    """Why not so much can leave that any one client is wholly in, where so much is left for all of them."""
    # Beside the largest no more can leave than the others have; it is alone then, and has the reserve.
    sizes = [arena.useful_bytes for arena in arenas]
    lacking = sum(sizes) - max(left_bytes, *sizes)
    if lacking <= 0 or can_leave(arenas) >= lacking:
        return None
    return f"host memory to swap {lacking // MIB} MiB into is not left (--host-memory)"


def _useful_bytes(swap: Swap) -> int:
    """The most that host memory can be of use to a client, a growth included that waits and is possible."""
    admitted_bytes, growth = whole(swap.admitted_bytes), swap.growth
    return admitted_bytes if growth is None or swap.in_doubt else max(admitted_bytes, growth.footprint_bytes)

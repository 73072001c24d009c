"""Admission: **the rules** of what may be allocated.

One question has all of them: does a growth fit (``_lacks``)? It is asked with two views of what is not certain
(view.py). What does not fit even at best is refused. What fits even at worst is granted. What is between waits until
more is known. A growth fits if each of this does:

1. *Limit.* What its container's processes have, with the growth, is within the container's limit (limits.py).
2. *Itself.* Its footprint fits beside the unmovable memory of all clients and what is granted of others' memory
   requests (requests.py), with some headroom for contexts that may still come.
3. *Others.* The footprint of each client still fits beside all unmovable memory, a context included. So every client
   can be wholly on the device, one at a time. A context may count on the reserve, and on the memory of contexts that
   wait as it does: it comes first. One that is asleep fits with its context when all others sleep that ever may, and
   so does the largest such context beside each client that never sleeps: no such one takes more. One that comes back
   is not kept asleep by its own size: it was there with it, and what its context takes was a guess.
   While others are made of which nobody knows yet what they take, a first context waits until there is room for twice
   what all of them are assumed to take.
4. *Host memory.* Whichever client is wholly in, as much of the others can leave as lacks then.
5. *Requests.* What is granted of memory requests is still there beside all that, host memory as it is.

What a client was admitted it may allocate without asking. Where that is too much now, it is taken back (``take_back``);
what it has not used of it counts at worst only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.core.memory.estates import Estates
from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.limits import Limits
from nvshare.scheduler.core.memory.present import Present
from nvshare.scheduler.core.memory.requests import Requests, returning
from nvshare.scheduler.core.memory.view import View
from nvshare.scheduler.core.records.arenas import (
    AHEAD_SHARE,
    AT_ONCE_BYTES,
    GRANULE_BYTES,
    Arena,
    can_leave,
    fill,
    whole,
)
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.growth import Growth
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.memory import CONTEXT_KNOWN_SECONDS, UNKNOWN_CONTEXTS, Memory

UNASKED_BYTES: Final = 64 << 20
"""How much more than it asked for a client is admitted, or UNASKED_SHARE of it if that is more: many small allocations
do not ask each."""
UNASKED_SHARE: Final = 1 / 16
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Refusal:
    """A growth that is not possible."""

    reason: str
    others: Collection[Client]
    """Whose memory may be why."""
    limited: bool = False
    """It passes the limit of its container."""


class Sleepers(Protocol):
    """Those of one device whose processes can be put to sleep."""

    @property
    def coming_back(self) -> list[Client]:
        """Those that were given room for their contexts, which they do not use yet."""

    def able(self, beside: Client | None) -> list[Client]:
        """Those that are about to sleep, or could if they did not have the device's lock, which they will give back.

        ``beside``: without those of this one's process.
        """

    def most_bytes(self, beside: Client | None) -> int:
        """What the contexts of those take, and of those that could soon: they come back, or ask for memory."""

    def stays(self, client: Client) -> bool:
        """Whether its process never sleeps, whatever it does."""

    def willing_bytes(self, client: Client | None) -> int:
        """What the contexts of all take that may sleep some time, whatever they do now, when ``client`` has its own;
        None: nobody who waits for one has it."""


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
        sleepers: Sleepers,
    ) -> None:
        """``clients``: those whose memory swaps."""
        self.clients = clients
        self._sleepers = sleepers
        self._ledger, self._host, self._estates = ledger, host, estates
        self._grace_seconds, self._limits, self._requests = grace_seconds, limits, requests
        self.lacks_host_memory = False
        """``grow_arenas`` would have made more if there had been more, which clients of other devices may give back."""

    @property
    def facts(self) -> tuple[int, ...]:
        """What a refusal goes by beside the time: as long as nothing of it changes no other growth is refused."""
        ledger, memories = self._ledger, [client.memory for client in self.clients.values()]
        sizes = [size for memory in memories for size in (memory.useful_bytes, memory.pledged_bytes)]
        asleep_bytes = sum(each.memory.context_bytes for each in self._sleepers.able(None))
        found = ledger.left_bytes, ledger.departed_bytes, ledger.measurements, self._host.possible_bytes, asleep_bytes
        return *found, *self._requests.granted, *sizes

    def capacity_bytes(self, client: Client) -> int:
        """The most that a client's footprint could be admitted now."""
        kept_bytes = self._requests.others_bytes([client.number])
        return max(client.memory.admitted_bytes, self._ledger.left_bytes - self._ledger.headroom_bytes() - kept_bytes)

    def refusal(self, client: Client, now: float) -> Refusal | None:
        """Why the growth that a client asked for is not possible, not even at best; None: it is, maybe not at once."""
        return self.verdict(client, now)[0]

    def verdict(self, client: Client, now: float) -> tuple[Refusal | None, bool]:
        """The same, and whether it is possible only when others sleep that don't."""
        assumed_bytes = sum(each.memory.pinned_bytes for each in self._unmeasured(now))
        free_bytes = assumed_bytes + self._ledger.departed_bytes
        stuck = self._stuck(now)
        view = View(True, stuck, assumed_bytes, free_bytes, self._host.possible_bytes)
        found = self._lacks(client, view)
        if found is not None and not found.limited:
            found = self._lacks_asleep(client, view, found)
            return found, found is None
        if found is not None or not stuck:
            return found, False
        # As far as those go on that are stopped. Others rather sleep than that they are waited for.
        view = replace(view, staying=stuck)
        found = self._lacks(client, view)
        return None, found is not None and self._lacks_asleep(client, view, found) is None

    def _lacks_asleep(self, client: Client, view: View, found: Refusal) -> Refusal | None:
        """What a growth lacks when those sleep that can; ``found``: what it lacks while they don't.

        They come back only when it can sleep in its turn, with all that it will have.
        """
        memory, growth = client.memory, client.memory.growth
        able = self._sleepers.able(client)
        more = sum(each.memory.context_bytes for each in able)
        lacking = 0 if growth is None else growth.footprint_bytes - memory.host_bytes
        if lacking > max(0, self._host.possible_bytes):
            return found
        asleep = replace(
            view,
            assumed_bytes=view.assumed_bytes + more,
            free_bytes=view.free_bytes + more,
            asleep=frozenset(each.number for each in able),
        )
        return self._lacks(client, asleep) if more else found

    def is_ready(self, client: Client, now: float, slack_bytes: int = 0) -> bool:
        """Whether the growth that a client asked for is possible even at worst; if it were so much larger."""
        if not client.memory.has_context and self._lacks_for_contexts(client, now):
            return False
        return self._lacks(client, View(False, self._stuck(now), gone=tuple(self._estates)), slack_bytes) is None

    def _lacks(self, client: Client, view: View, slack_bytes: int = 0) -> Refusal | None:
        """Why a growth does not fit as a view has it, by the rules in the order of the module's text; None: it fits."""
        memory, growth = client.memory, client.memory.growth
        assert growth is not None
        footprint_bytes, fixed_bytes = growth.footprint_bytes + slack_bytes, memory.more_fixed_bytes
        is_more = footprint_bytes > memory.admitted_bytes or fixed_bytes > 0
        if memory.has_context and not is_more:
            return None
        if is_more and (reason := self._limits.lacks(client, growth, view)):
            return Refusal(reason, self._limits.in_the_way(client, growth), limited=True)
        clients, ledger, requests = list(self.clients.values()), self._ledger, self._requests
        others = [other for other in clients if other is not client]
        # The contexts that are not admitted yet come after this.
        later_bytes = sum(other.memory.ahead_bytes for other in others)
        left = ledger.left_bytes + later_bytes + view.free_bytes - fixed_bytes - view.staying_bytes(clients)
        headroom = ledger.headroom_bytes(fixed_bytes - later_bytes - view.assumed_bytes)
        allowed = left - headroom
        most = allowed - requests.others_bytes([client.number])
        if not is_more:
            left += ledger.waking_bytes if growth.wakes else ledger.reserve_bytes
        sizes = [max(view.movable_bytes(each, left), footprint_bytes if each is client else 0) for each in clients]
        made = [Arena(view.arena_bytes(each), whole(size)) for each, size in zip(clients, sizes, strict=True)]
        numbers = [each.number for each in clients] + [0] * len(view.gone)
        arenas = fill(made, view.host_bytes)
        arenas += [Arena(each.memory.host_bytes, each.memory.pledged_bytes) for each in view.gone]
        asleep = {each.number: view.context_bytes(each) for each in others if view.sleeps(each)}
        willing_bytes = self._willing_bytes(client, view) if asleep else 0
        contexts = returning(asleep, willing_bytes + headroom)
        reason = (
            (requests.refusal(client.number, most) if most < footprint_bytes > memory.admitted_bytes else None)
            or (self._keeps_out(client, sizes, left, view, willing_bytes) if memory.more_unmovable_bytes else None)
            or _cannot_leave(arenas, left + sum(each.charge_bytes for each in view.gone))
            or requests.lacks(client, list(zip(numbers, arenas, strict=True)), contexts, allowed)
        )
        return None if reason is None else Refusal(reason, others)

    def _willing_bytes(self, client: Client, view: View) -> int:
        """What the contexts of all take that may sleep some time and do not, as a view has it."""
        falling_bytes = sum(each.memory.context_bytes for each in self.clients.values() if each.number in view.asleep)
        return self._sleepers.willing_bytes(client) - falling_bytes

    def _keeps_out(
        self, client: Client, sizes: Sequence[int], left_bytes: int, view: View, willing_bytes: int
    ) -> str | None:
        """Who would not be wholly on the device any more, with what has these sizes, where so much is left for it."""
        comes_back = client.memory.growth is not None and client.memory.growth.wakes
        stays = self._sleepers.stays(client)
        others = (each for each in self.clients.values() if view.sleeps(each) and each is not client)
        beside_bytes = max(map(view.context_bytes, others), default=0) if stays else 0
        for each, size in zip(self.clients.values(), sizes, strict=True):
            sleeps = view.sleeps(each) and each is not client
            if sleeps and comes_back and not stays:
                # It will sleep again: there is as much for that one then as there was.
                continue
            needed = size + view.context_bytes(each) if sleeps else size
            if comes_back and each is client:
                needed = 0
            is_beside = beside_bytes > 0 and not sleeps and self._sleepers.stays(each)
            lacks_beside = is_beside and size + beside_bytes > left_bytes + willing_bytes
            lacks = needed > left_bytes + (willing_bytes if sleeps else 0)
            if lacks or lacks_beside or view.is_unknown(each):
                if not needed:
                    return does_not_fit(client.memory.more_unmovable_bytes)
                owner = "its own" if each is client else f"client {each.number}'s"
                return f"{owner} {needed // MIB} MiB that swap would not fit the device any more"
        if any(estate.memory.pledged_bytes > left_bytes + estate.charge_bytes for estate in view.gone):
            return "what one that is gone may come back with would not fit the device any more"
        return None

    def changes_at(self, now: float) -> float | None:
        """When a growth that is not ready may be refused if nothing happens before; None: never."""
        moments = [each.memory.context_at + CONTEXT_KNOWN_SECONDS for each in self._unmeasured(now)]
        unheard = (each.memory for each in self.clients.values() if not each.memory.is_heard)
        awaited = (memory.progress_at + self._grace_seconds for memory in unheard)
        return min([*moments, *(moment for moment in awaited if moment > now)], default=None)

    def admitted_bytes(self, client: Client, growth: Growth, now: float) -> int:
        """How much footprint to admit for a growth that is ready: with slack where that costs no host memory."""
        admitted_bytes = client.memory.admitted_bytes
        wanted = max(growth.footprint_bytes, admitted_bytes)
        slack = max(UNASKED_BYTES, int(wanted * UNASKED_SHARE))
        slack = min(slack, self.capacity_bytes(client) - wanted) // GRANULE_BYTES * GRANULE_BYTES
        if growth.footprint_bytes <= admitted_bytes or slack <= 0 or self._limits.is_limited(client.number):
            return wanted
        if self._requests.is_pressed(client.number) or not self.is_ready(client, now, slack):
            return wanted
        return wanted + slack

    def take_back(self, present: Present) -> list[Client]:
        """Takes back what is admitted and too much now; from whom."""
        clients: Collection[Client] = present.clients.values()
        left = self._ledger.left_bytes
        if growing := [client.memory for client in clients if client.memory.growth is not None]:
            left -= max(memory.more_fixed_bytes for memory in growing)
        if self._limits or self._requests.granted_bytes or not present.are_all_within(left):
            clients = self.clients.values()
        found = []
        is_contested = self._limits or self._requests
        for client in clients:
            memory = client.memory
            if memory.reported and (is_contested or memory.admitted_bytes > left):
                most = self._most_admitted_bytes(client, left)
                if memory.admitted_bytes > most:
                    memory.take_back(most)
                    found.append(client)
        return found

    def _most_admitted_bytes(self, client: Client, left_bytes: int) -> int:
        """What a client may stay admitted where ``left_bytes`` are left for it beside what comes.

        Where others need it all that it does not use is taken back, once it went by the last growth that was granted.
        """
        memory = client.memory
        pressed = self._limits.is_pressed(client.number) or self._requests.is_pressed(client.number)
        if memory.orders.going_by >= memory.orders.grown and pressed:
            # Not for its own growth either: another may wait for that, as it waits for what the other keeps for its.
            return memory.footprint_bytes
        growth = memory.growth
        asked_bytes = 0 if growth is None or growth.in_doubt else growth.footprint_bytes
        return max(memory.footprint_bytes, asked_bytes, left_bytes)

    def grow_arenas(self, present: Present) -> list[GrowArena]:
        """Which host memory to make, ahead of need."""
        self.lacks_host_memory = False
        if self._host.awaited:
            return []
        # What is elsewhere comes back as it went.
        clients = [client for client in present.clients.values() if not client.memory.away.is_there]
        memories = [client.memory for client in clients]
        if not [memory for memory in memories if memory.host_bytes < _goal_bytes(memory)]:
            return []
        useful = [_goal_bytes(memory) for memory in memories]
        possible = (memory for memory in memories if memory.growth and not memory.growth.in_doubt)
        fixed_bytes = sum(memory.more_fixed_bytes for memory in possible)
        wanted = present.settled_bytes + sum(useful) + fixed_bytes
        # For managed memory others leave as well: it moves by itself, but never pushes out what swaps.
        lacking = wanted + self._ledger.paging_bytes + self._requests.unused_bytes - self._ledger.left_bytes
        leaving = [client for client in clients if client.process is not None and client.process.leaves]
        left = self._host.unused_bytes if leaving else self._host.left_bytes
        if lacking <= -self._ledger.total_bytes * AHEAD_SHARE or (leaving and self._host.kept_bytes):
            # Then only those leave that are about to sleep, or what is kept is for them.
            clients = leaving
        arenas = [Arena(client.memory.host_bytes, _goal_bytes(client.memory)) for client in clients]
        self.lacks_host_memory = sum(max(0, arena.useful_bytes - arena.bytes) for arena in arenas) > max(0, left)
        if left <= 0:
            return []
        made: list[GrowArena] = []
        for client, arena, goal in zip(clients, arenas, fill(arenas, left), strict=True):
            more = min(goal.bytes - arena.bytes, AT_ONCE_BYTES, left)
            # Who comes back may have some already, and says so.
            if more > 0 and client.memory.reported and not client.memory.arena_asked_bytes:
                client.memory.make_arena(more)
                self._host.count(client.memory)
                left -= more
                made.append(GrowArena(client.number, more))
        return made

    def _unmeasured(self, now: float) -> list[Client]:
        """Whose context there is, of a size that will soon be known."""
        if not self._ledger.total_measured:
            return []
        return [each for each in self.clients.values() if each.memory.is_unmeasured(now)]

    def _lacks_for_contexts(self, client: Client, now: float) -> bool:
        """Whether a client's first context may have no room, though all that can move had left: others are being made,
        and all of them may take more than is assumed."""
        made = [each.memory.context_bytes for each in self._unmeasured(now)]
        if not made or client.memory.asleep:
            return False
        own_bytes = client.memory.context_bytes
        left_bytes = self._ledger.alone_bytes + sum(each.memory.ahead_bytes for each in self.clients.values())
        return left_bytes - own_bytes < (UNKNOWN_CONTEXTS - 1) * (sum(made) + own_bytes)

    def _stuck(self, now: float) -> frozenset[int]:
        """Who does not say what it goes by."""
        late = (each for each in self.clients.values() if now >= each.memory.progress_at + self._grace_seconds)
        return frozenset(each.number for each in late if not each.memory.is_heard)


def does_not_fit(size: int) -> str:
    """Why a growth is not possible that brings so much which can't move, be it a context."""
    return f"{size // MIB} MiB more that can't move would not fit the device"


def _cannot_leave(arenas: Sequence[Arena], left_bytes: int) -> str | None:
    """Why not so much can leave that any one client is wholly in, where so much is left for all of them."""
    # Beside the largest no more can leave than the others have; it is alone then, and has the reserve.
    sizes = [arena.useful_bytes for arena in arenas]
    lacking = sum(sizes) - max(left_bytes, *sizes)
    if lacking <= 0 or can_leave(arenas) >= lacking:
        return None
    return f"host memory to swap {lacking // MIB} MiB into is not left (--host-memory)"


def _goal_bytes(memory: Memory) -> int:
    """The most that host memory can be of use, a growth included that waits and is possible."""
    admitted_bytes, growth = whole(memory.admitted_bytes), memory.growth
    return admitted_bytes if growth is None or growth.in_doubt else max(admitted_bytes, growth.footprint_bytes)

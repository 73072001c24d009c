"""The memory of one client, whatever serves it: what is known of it, and what counts of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nvshare.scheduler.core.events import Backend, ResidencyReported
from nvshare.scheduler.core.records.arenas import takes_bytes, whole
from nvshare.scheduler.core.records.away import Away, Place
from nvshare.scheduler.core.records.growth import Growth
from nvshare.scheduler.core.records.orders import Orders

CONTEXT_KNOWN_SECONDS: Final = 10.0
"""How long after it was admitted a context's size may come to be known: it is made meanwhile, beside others on a busy
machine, and the device is measured every two seconds. Later what is assumed counts."""
CONTEXT_SECONDS: Final = 3.0
"""How long after it was admitted a context may still grow: making one takes from 0.1 s to some seconds if many are made
at a time. Half a context that was taken for a whole one is what others are out of memory for later."""

UNKNOWN_CONTEXTS: Final = 2
"""So many times what is assumed of a context one may take that was never measured. A wake counts on no more: of one
that sleeps, and of those that are being made beside it."""

ANSWER_SECONDS: Final = 0.1
"""How long an answer is awaited that decides whether another client is refused. The thread that gives it never waits,
so it takes some milliseconds on a busy machine; who takes longer is stopped."""


@dataclass(slots=True, eq=False)
class Memory:
    """One client's memory. Of one that does not swap nothing is resident, allotted or admitted.

    A client that swaps is told what it may keep on the device, and charged with the most of all that it may still go
    by. Until its first report it counts as wholly resident.

    Whatever changes what counts is followed by ``count``, which only the ledger calls.
    """

    backend: Backend
    footprint_bytes: int = 0
    """What it allocated; of a client that swaps, what of that can move."""
    says_footprint: bool = True
    """False: it does not (protocol 1)."""
    pinned_bytes: int = 0
    """What its context and modules take, or will when they are made."""
    pinned_measured: bool = False
    """False: that is assumed."""
    claimed_total_bytes: int = 0
    """The device's memory as this client says it; 0: it does not."""

    # What counts.

    is_known: bool = field(init=False)
    """Whether it says its footprint, so that it can be said who fits beside it. Like all that counts it changes in
    ``count`` alone, between being taken out of the sums and put in again."""
    movable_bytes: int = field(init=False)
    """What has to be on the device only while the client holds; 0 while that is not known."""
    fixed_bytes: int = field(init=False)
    """What is on the device whatever the client does."""
    context_bytes: int = field(init=False)
    """What its context and modules are charged with: nothing while the first one waits for others' ends."""
    assumed_bytes: int = field(init=False)
    """How much of that is only assumed."""
    headroom_bytes: int = field(init=False)
    """How much of what is fixed takes of what stays for contexts: all but native allocations."""

    # What only a client has whose memory swaps.

    swaps: bool = field(init=False)
    resident_bytes: int = field(init=False)
    admitted_bytes: int = field(init=False)
    """How large its footprint may become without asking."""
    allotted_bytes: int = field(init=False)
    """How much may be resident, as it was told last."""
    charge_bytes: int = 0
    """How much may be resident, by what it may still go by."""
    leaving_bytes: int = 0
    """What of that will be free when it has obeyed."""
    pledged_bytes: int = 0
    """How large its footprint may become without asking, by what it may still go by."""
    useful_bytes: int = 0
    """The most that host memory can be of use to it: that, in whole granules."""
    unmovable_bytes: int = 0
    """What of its allocations can't be swapped, what it may take unasked included."""
    growing_bytes: int = 0
    """What the footprint will be after the growth that a holder waits for; 0: it waits for none that is possible."""
    orders: Orders = field(default_factory=Orders)
    """What it was told."""
    reported: bool = False
    out_bytes: int = 0
    """What has its contents in host memory alone; what is on the way in included."""
    arena_bytes: int = 0
    """Host memory to swap into that it has, or was sent."""
    usable_bytes: int = 0
    """Of it, registered with the driver."""
    arena_asked_bytes: int = 0
    """What is being made for it; parts of that it may have and tell of already."""
    came_bytes: int = 0
    """That came in from host memory, since it was registered."""
    left_bytes: int = 0
    """That were copied out since then."""
    spared_bytes: int = 0
    """That ever left without being copied, as it says."""
    returned_bytes: int = 0
    """Of all host memory that it ever had, what it gave back, as it says."""
    growth: Growth | None = None
    """Not answered yet."""
    grown_at: float = float("-inf")
    """When its last growth was granted."""
    has_context: bool = True
    """False: it waits to make the first one, and what that takes is charged only in advance."""
    asleep: bool = False
    """Its process is checkpointed, context and all. What that takes when it wakes is as large as it was."""
    slept_measured: bool = False
    """How large that is was measured."""
    context_at: float = float("-inf")
    """When that was admitted, or it came with one."""
    away: Away = field(default_factory=Away)
    """What of its host memory is elsewhere while it sleeps."""
    progress_at: float = 0.0
    """When it last reported something, or was first asked to do something that it has not done."""
    _sure_bytes: int = 0
    """The least that it may still go by."""

    def __post_init__(self) -> None:
        self.swaps = self.backend is Backend.SWAP
        self.resident_bytes = self.admitted_bytes = self.allotted_bytes = self.footprint_bytes if self.swaps else 0
        self.orders.correct(self.allotted_bytes, self.admitted_bytes)
        self._charge()
        self.count()

    # What happens to it.

    def count(self) -> None:
        """Finds anew what counts."""
        is_native = self.backend is Backend.NATIVE
        waits = self.growth is not None and self.growth.queued and not self.has_context
        sleeps = self.asleep and self.growth is None and not self.has_context
        self.is_known = self.says_footprint
        self.context_bytes = 0 if sleeps or (waits and not self.pinned_measured) else self.pinned_bytes
        self.assumed_bytes = 0 if self.pinned_measured else self.context_bytes
        self.headroom_bytes = self.context_bytes + self.unmovable_bytes
        self.fixed_bytes = self.headroom_bytes + (self.footprint_bytes if is_native else 0)
        self.movable_bytes = 0 if is_native else max(self.footprint_bytes, self.growing_bytes)

    def report(self, event: ResidencyReported, now: float) -> tuple[int, int]:
        """It told its memory, legally. Returns what was copied in and what out since the last report, 0 if it is the
        first; what was freed did not move."""
        self.orders.heard(event.order)
        more_bytes = event.out_bytes - self.out_bytes if self.reported else 0
        came_bytes = max(0, -more_bytes - max(0, self.footprint_bytes - event.footprint_bytes))
        returned_bytes = max(0, event.returned_bytes - self.returned_bytes) if self.reported else 0
        spared_bytes = min(max(0, more_bytes), max(0, event.spared_bytes - self.spared_bytes))
        left_bytes = max(0, more_bytes) - spared_bytes
        self.spared_bytes, self.returned_bytes = event.spared_bytes, event.returned_bytes
        self.came_bytes, self.left_bytes = self.came_bytes + came_bytes, self.left_bytes + left_bytes
        self.footprint_bytes, self.resident_bytes = event.footprint_bytes, event.resident_bytes
        self.out_bytes, self.reported = event.out_bytes, True
        # What it was sent it may not have heard of, so less than that is not what it gave back.
        self.arena_bytes = max(0, self.arena_bytes - returned_bytes, event.arena_bytes - self.arena_asked_bytes)
        self.usable_bytes, self.progress_at = min(event.usable_bytes, event.arena_bytes), now
        if self.orders.are_heard:
            self.admitted_bytes = max(event.footprint_bytes, min(self.admitted_bytes, event.admitted_bytes))
        else:
            self.admitted_bytes = max(event.footprint_bytes, self.admitted_bytes)
        self.orders.correct(self.allotted_bytes, self.admitted_bytes)
        if event.order >= self.orders.grown and self.growth is None:
            self.growing_bytes = 0
        # What was granted and is not there it has not taken, or given back: it asks again for that.
        self.unmovable_bytes = max(event.fixed_bytes, self.orders.fixed_bytes)
        self._charge()
        return came_bytes, left_bytes

    def tell(self, allotted_bytes: int, now: float) -> int:
        """It is told that no more than so much may be resident, and what is admitted; returns the order's number."""
        if self.orders.are_heard and not self.is_moving:
            self.progress_at = now
        self.allotted_bytes = allotted_bytes
        order = self.orders.tell(allotted_bytes, self.admitted_bytes)
        self._charge()
        return order

    def progress(self, now: float) -> None:
        """It did something, or is asked for something."""
        self.progress_at = now

    def resize(self, footprint_bytes: int) -> None:
        """One that does not swap has allocated so much."""
        self.footprint_bytes, self.says_footprint = footprint_bytes, True

    def pin(self, pinned_bytes: int, *, measured: bool) -> None:
        """So much is pinned for it, as it was measured or is assumed."""
        self.pinned_bytes, self.pinned_measured = pinned_bytes, measured

    def made_context(self) -> None:
        """It has made its first context, or does so now."""
        self.has_context = True

    def ask(self, growth: Growth) -> None:
        """It asks for so much. Its first context comes before anything else."""
        self.growth = growth
        self.has_context |= growth.footprint_bytes > 0 or growth.fixed_bytes > 0

    def refuse(self) -> None:
        """It does not get what it asked for."""
        self.growth = None

    def expect(self, growing_bytes: int) -> None:
        """Its footprint will be so large; 0: as it is."""
        self.growing_bytes = growing_bytes

    def take_back(self, admitted_bytes: int) -> None:
        """It is admitted no more than so much; the next order tells it."""
        self.admitted_bytes = admitted_bytes

    def make_arena(self, more_bytes: int) -> None:
        """So much host memory is made for it."""
        self.arena_asked_bytes = more_bytes

    def arena_grown(self, segment_bytes: int) -> None:
        """It was sent host memory."""
        if self.away.is_there:
            self.away.grown(segment_bytes)
        else:
            self.arena_bytes, self.arena_asked_bytes = self.arena_bytes + segment_bytes, 0

    def grow(self, footprint_bytes: int, fixed_bytes: int, now: float) -> int:
        """It is admitted so much; the next order tells it. What its first context takes, if it makes that now."""
        self.growth, self.grown_at = None, now
        context_bytes = 0 if self.has_context else self.pinned_bytes
        if not self.has_context:
            self.has_context = True
            # That of one that sleeps takes what it took before.
            self.pinned_measured = self.pinned_measured or (self.asleep and self.slept_measured)
            self.context_at = self.context_at if self.asleep else now
        self.admitted_bytes = max(self.admitted_bytes, footprint_bytes)
        # What was granted before may be in use until it goes by this.
        self.unmovable_bytes = max(self.unmovable_bytes, fixed_bytes)
        self.orders.grow(fixed_bytes)
        return context_bytes

    def fall_asleep(self) -> None:
        """It has nothing on the device any more; what its context took is what it is taken to take again."""
        self.slept_measured = self.pinned_measured or (self.asleep and self.slept_measured)
        self.asleep, self.has_context, self.pinned_measured = True, False, False
        self.context_at = float("-inf")
        self.growth = None

    def come_back(self, ticket: int) -> None:
        """It waits for room for its context, as for a first one, in this place."""
        self.growth = Growth(0, self.footprint_bytes, self.unmovable_bytes, ticket, wakes=True)

    def wake(self, now: float) -> None:
        """Its context is there again."""
        self.asleep, self.has_context, self.progress_at = False, True, now

    # What it has.

    @property
    def used_bytes(self) -> int:
        """What it allocated, as far as it reports that."""
        return self.footprint_bytes + self.unmovable_bytes

    @property
    def claimed_bytes(self) -> int:
        """What it may have without being asked."""
        return max(self.footprint_bytes, self.pledged_bytes) + self.unmovable_bytes

    @property
    def grown_bytes(self) -> int:
        """The same when it has what it asks for."""
        if self.growth is None:
            return self.claimed_bytes
        movable_bytes = max(self.footprint_bytes, self.pledged_bytes, self.growth.footprint_bytes)
        return movable_bytes + max(self.unmovable_bytes, self.growth.fixed_bytes)

    @property
    def host_bytes(self) -> int:
        """Host memory to swap into that it has, or will get."""
        return self.arena_bytes + self.arena_asked_bytes

    @property
    def taken_bytes(self) -> int:
        """What it takes of host memory, made or being made."""
        return self.host_bytes - self.away.lacking_bytes + self.away.pack_bytes

    @property
    def file_bytes(self) -> int:
        """What of it is in a file, or is to be."""
        if self.away.place is Place.FILE:
            return self.away.bytes
        return self.arena_bytes if self.away.goes_to is Place.FILE else 0

    @property
    def least_bytes(self) -> int:
        """What has to stay resident for want of host memory: what it was sent it registers when it is to leave."""
        return self.stays_bytes(takes_bytes(self.arena_bytes, self.footprint_bytes))

    def stays_bytes(self, takes_bytes: int) -> int:
        """What would have to stay resident if so much could leave."""
        return max(0, min(self.footprint_bytes, self.held_bytes) - takes_bytes)

    @property
    def bound_bytes(self) -> int:
        """What has to stay resident for want of host memory even when all of that is registered, as far as is known."""
        if not self.reported or self.host_bytes >= self.footprint_bytes:
            return 0
        return self.stays_bytes(takes_bytes(self.host_bytes, self.footprint_bytes))

    @property
    def can_leave(self) -> bool:
        """Whether some of what it is charged with can leave, or will when its host memory is registered."""
        return self.charge_bytes > self.bound_bytes

    @property
    def is_settled(self) -> bool:
        """Whether it has nothing on the device, host memory for all that it may have, and asks for nothing."""
        is_out = self.is_heard and self.growth is None and not self.charge_bytes and not self.goes_by_others
        return is_out and not self.arena_asked_bytes and self.arena_bytes >= self.useful_bytes

    @property
    def is_in(self) -> bool:
        """Whether all of it is on the device and stays there."""
        return self.may_be_in and self.resident_bytes >= self.footprint_bytes

    # What it goes by.

    @property
    def is_heard(self) -> bool:
        """Whether it has said that it goes by what it was told."""
        return self.reported and self.orders.are_heard

    def may_answer(self, now: float) -> bool:
        """Whether it has registered or been told something, so lately that its answer may be on the way."""
        return not self.is_heard and now < self.progress_at + ANSWER_SECONDS

    @property
    def goes_by_others(self) -> bool:
        """Whether it is back with memory out: what the scheduler before this one told it nobody knows here."""
        return self.reported and not self.orders.newest and self.resident_bytes < self.footprint_bytes

    @property
    def may_be_in(self) -> bool:
        """Whether it goes by nothing that keeps some of it out."""
        return self.reported and self._sure_bytes >= self.footprint_bytes

    @property
    def moves_out(self) -> bool:
        """Whether memory of it has to leave for what it was told."""
        return self.resident_bytes > self.allotted_bytes

    @property
    def is_moving(self) -> bool:
        """Whether memory of it has to leave or may come in."""
        return self.moves_out or self.resident_bytes < min(self.footprint_bytes, self.allotted_bytes)

    # What it asks for, and its first context.

    @property
    def more_fixed_bytes(self) -> int:
        """Of what it asks for, what can't move."""
        return 0 if self.growth is None else max(0, self.growth.fixed_bytes - self.unmovable_bytes)

    @property
    def more_unmovable_bytes(self) -> int:
        """The same, with its first context."""
        if self.growth is None:
            return 0
        return self.more_fixed_bytes + (0 if self.has_context else self.pinned_bytes)

    @property
    def ahead_bytes(self) -> int:
        """What is charged in advance for its first context."""
        return 0 if self.has_context else self.context_bytes

    def is_unmeasured(self, now: float) -> bool:
        """Whether it made its first context so lately that its size will soon be known."""
        return self.has_context and not self.pinned_measured and now < self.context_at + CONTEXT_KNOWN_SECONDS

    def makes_context(self, now: float) -> bool:
        """Whether it waits for its first context, or may be about to make it."""
        return self.is_unmeasured(now) if self.has_context else self.growth is not None

    def is_growing(self, measured_bytes: int, now: float) -> bool:
        """Whether its context was measured while it was being made, so that less was seen than there will be."""
        return measured_bytes < self.context_bytes and now < self.context_at + CONTEXT_SECONDS

    @property
    def held_bytes(self) -> int:
        """What of it is resident, and what has contents in host memory; what is on the way in is both."""
        return self.resident_bytes + self.out_bytes

    def _charge(self) -> None:
        """Finds anew what it may go by, from what it was told and what it has."""
        allotted = self.orders.allotted_bytes
        self._sure_bytes, self.charge_bytes = min(allotted), max(self.resident_bytes, *allotted)
        self.leaving_bytes = self.charge_bytes - self.allotted_bytes
        self.pledged_bytes = self.orders.admitted_bytes
        self.useful_bytes = whole(self.pledged_bytes)

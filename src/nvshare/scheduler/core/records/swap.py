"""What one client whose memory swaps was told and has told: allotments, residency, growth, host memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from nvshare.scheduler.core.actions import Allot, Evict
from nvshare.scheduler.core.events import GrowthRequested, ResidencyReported
from nvshare.scheduler.core.records.account import Account
from nvshare.scheduler.core.records.arenas import CHUNK_BYTES, Arena, whole
from nvshare.scheduler.core.snapshot import SwapSnapshot

CONTEXT_KNOWN_SECONDS: Final = 10.0
"""How long after it was admitted a context's size may come to be known: it is made meanwhile, beside others on a busy
machine, and the device is measured every two seconds. Later what is assumed counts."""
CONTEXT_SECONDS: Final = 3.0
"""How long after it was admitted a context may still grow: making one takes from 0.1 s to some seconds if many are made
at a time. Half a context that was taken for a whole one is what others are out of memory for later."""

ANSWER_SECONDS: Final = 0.1
"""How long an answer is awaited that decides whether another client is refused. The thread that gives it never waits,
so it takes some milliseconds on a busy machine; who takes longer is stopped."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A growth that is not possible waits for others' ends."""

    reason: str
    """Why it is not, and what has to happen."""
    context_bytes: int
    """Of its context; where that is only asked for it is not charged meanwhile."""
    hopeless_since: float | None = None
    """Since when looks find that their ends would not do; None: the last one found that they would."""
    given_up: bool = False
    """It waits no more: if it is still not possible when all were asked, it is refused."""


@dataclass(slots=True, eq=False)
class Swap:
    """The record of one client. Its footprint, which is what can move, is in its account.

    A message takes its time, so a client may still go by any allotment from the one that it named last to the newest:
    it is charged with the largest of them. Until its first report it counts as wholly resident.
    """

    number: int
    account: Account
    resident_bytes: int
    admitted_bytes: int
    """How large its footprint may become without asking."""
    allotted_bytes: int
    """How much may be resident, as it was told last."""
    order: int = 0
    """The newest."""
    going_by: int = 0
    """The newest that it is known to go by."""
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
    growth: GrowthRequested | None = None
    """Not answered yet."""
    doubted: tuple[int, float] | None = None
    """It is not possible by this measurement of the device; and until when another one is awaited."""
    asked_until: float | None = None
    """It is not possible by what others said, and they were asked again; until when their answers are awaited."""
    wait: Wait | None = None
    """It is not possible, and waits for others' ends."""
    grown_order: int = 0
    """The order that granted the last growth."""
    has_context: bool = True
    """False: it waits to make the first one, and what that takes is charged only in advance."""
    context_at: float = float("-inf")
    """When that was admitted, or it came with one."""
    progress_at: float = 0.0
    """When it last reported something, or was first asked to do something that it has not done."""
    charge_bytes: int = 0
    pledged_bytes: int = 0
    """How large its footprint may become without asking, by what it may still go by."""
    _told: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Orders that it may go by, each with its allotment and what was admitted; the newest is the last."""
    _granted: deque[tuple[int, int]] = field(default_factory=deque)
    """Orders that it does not go by yet which granted a growth, each with the fixed memory that it may have by that."""

    def __post_init__(self) -> None:
        self._told.append((self.order, self.allotted_bytes, self.admitted_bytes))
        self._charge()

    def report(self, event: ResidencyReported, now: float) -> None:
        """It told its memory; the event is legal."""
        while self._told[0][0] < event.order:
            self._told.popleft()
        self.going_by = event.order
        if self.reported:
            footprint_bytes = self.footprint_bytes, event.footprint_bytes
            came_bytes, left_bytes = moved_bytes(footprint_bytes, (self.out_bytes, event.out_bytes))
            self.came_bytes += came_bytes
            self.left_bytes += left_bytes
        self.reported = True
        self.resident_bytes = event.resident_bytes
        self.out_bytes = event.out_bytes
        self.arena_bytes = max(self.arena_bytes, event.arena_bytes - self.arena_asked_bytes)
        self.usable_bytes = min(event.usable_bytes, event.arena_bytes)
        self.progress_at = now
        if event.order == self.order:
            self.admitted_bytes = max(event.footprint_bytes, min(self.admitted_bytes, event.admitted_bytes))
        else:
            self.admitted_bytes = max(event.footprint_bytes, self.admitted_bytes)
        self._told[-1] = self.order, self.allotted_bytes, self.admitted_bytes
        if event.order >= self.grown_order and self.growth is None:
            self.account.growing_bytes = 0
        while self._granted and self._granted[0][0] <= event.order:
            self._granted.popleft()
        # What was granted and is not there it has not taken, or given back: it asks again for that.
        self.account.unmovable_bytes = max([event.fixed_bytes, *(fixed_bytes for _, fixed_bytes in self._granted)])
        self._charge()

    def allot(self, allotted_bytes: int, capacity_bytes: int, now: float, request: int = 0) -> Allot:
        """Tells it that so much may be resident, with what is admitted."""
        self._tell(allotted_bytes, now)
        return Allot(self.number, self.order, allotted_bytes, self.admitted_bytes, capacity_bytes, request)

    def evict(self, allotted_bytes: int, now: float) -> Evict:
        """Tells it that no more than so much may be resident, not more than before; it answers with what it has."""
        self._tell(allotted_bytes, now)
        return Evict(self.number, self.order, allotted_bytes)

    def grow(self, footprint_bytes: int, fixed_bytes: int, now: float) -> int:
        """It is admitted so much; the next order tells it. What its first context takes, if it makes that now."""
        self.decide(None)
        context_bytes = 0 if self.has_context else self.account.pinned_bytes
        if not self.has_context:
            self.has_context, self.context_at = True, now
        self.admitted_bytes = max(self.admitted_bytes, footprint_bytes)
        # What was granted before may be in use until it goes by this.
        self.account.unmovable_bytes = max(self.fixed_bytes, fixed_bytes)
        self.grown_order = self.order + 1
        self._granted.append((self.grown_order, fixed_bytes))
        return context_bytes

    def decide(self, growth: GrowthRequested | None) -> None:
        """It asked for so much, which is not looked at yet; None: it has its answer."""
        self.growth = growth
        self.doubted = self.asked_until = self.wait = None

    @property
    def in_doubt(self) -> bool:
        """Whether a growth does not seem to be possible, but soon may."""
        return self.doubted is not None or self.asked_until is not None or self.wait is not None

    def may_answer(self, now: float) -> bool:
        """Whether it has registered or been told something, so lately that its answer may be on the way."""
        return not self.is_heard and now < self.progress_at + ANSWER_SECONDS

    def is_unmeasured(self, now: float) -> bool:
        """Whether it made its first context so lately that its size will soon be known."""
        return self.has_context and not self.account.pinned_measured and now < self.context_at + CONTEXT_KNOWN_SECONDS

    def makes_context(self, now: float) -> bool:
        """Whether it waits for its first context, or may be about to make it."""
        return self.is_unmeasured(now) if self.has_context else self.growth is not None

    def is_growing(self, measured_bytes: int, now: float) -> bool:
        """Whether its context was measured while it was being made, so that less was seen than there will be."""
        return measured_bytes < self.account.pinned_bytes and now < self.context_at + CONTEXT_SECONDS

    @property
    def is_heard(self) -> bool:
        """Whether it has said that it goes by what it was told."""
        return self.reported and self.going_by == self.order

    @property
    def goes_by_others(self) -> bool:
        """Whether it is back with memory out: what the scheduler before this one told it nobody knows here."""
        return self.reported and not self.order and self.resident_bytes < self.footprint_bytes

    @property
    def leaving_bytes(self) -> int:
        """What will be free when it has obeyed."""
        return max(0, self.charge_bytes - self.allotted_bytes)

    @property
    def moves_out(self) -> bool:
        """Whether memory of it has to leave for what it was told."""
        return self.resident_bytes > self.allotted_bytes

    @property
    def is_moving(self) -> bool:
        """Whether memory of it has to leave or may come in."""
        return self.moves_out or self.resident_bytes < min(self.footprint_bytes, self.allotted_bytes)

    @property
    def least_bytes(self) -> int:
        """What has to stay resident for want of host memory."""
        return self.stays_bytes(Arena(self.usable_bytes, self.footprint_bytes))

    def stays_bytes(self, arena: Arena) -> int:
        """What would have to stay resident with this host memory."""
        return max(0, self._movable_bytes - arena.takes_bytes)

    @property
    def can_leave(self) -> bool:
        """Whether some of what it is charged with can leave, or will when its host memory is registered."""
        stays = self.stays_bytes(Arena(self.arena_bytes + self.arena_asked_bytes, self.footprint_bytes))
        return self.charge_bytes > (stays if self.reported else 0)

    @property
    def _movable_bytes(self) -> int:
        """What of it is resident or has contents in host memory; what is on the way in is both."""
        return min(self.footprint_bytes, self.resident_bytes + self.out_bytes)

    @property
    def fixed_bytes(self) -> int:
        """Counted, and can't move; what it may take unasked included."""
        return self.account.unmovable_bytes

    @property
    def footprint_bytes(self) -> int:
        """What can move."""
        return self.account.footprint_bytes or 0

    @property
    def useful_bytes(self) -> int:
        """The most that host memory can be of use to it; whatever it still goes by, in whole granules."""
        return whole(self.pledged_bytes)

    @property
    def may_be_in(self) -> bool:
        """Whether it goes by nothing that keeps some of it out."""
        return self.reported and all(allotted_bytes >= self.footprint_bytes for _, allotted_bytes, _ in self._told)

    @property
    def rests(self) -> bool:
        """Whether it has nothing on the device, host memory for all that it may have, and asks for nothing."""
        settled = self.reported and self.growth is None and not self.charge_bytes and not self.goes_by_others
        return settled and not self.arena_asked_bytes and self.arena_bytes >= self.useful_bytes

    @property
    def is_in(self) -> bool:
        """Whether all of it is on the device and stays there."""
        return self.may_be_in and self.resident_bytes >= self.footprint_bytes

    @property
    def more_fixed_bytes(self) -> int:
        """Of what it asks for, what can't move."""
        return 0 if self.growth is None else max(0, self.growth.fixed_bytes - self.fixed_bytes)

    @property
    def more_unmovable_bytes(self) -> int:
        """The same, with its first context."""
        if self.growth is None:
            return 0
        context_bytes = self.account.pinned_bytes if self.wait is None else self.wait.context_bytes
        return self.more_fixed_bytes + (0 if self.has_context else context_bytes)

    @property
    def wanted_bytes(self) -> int:
        """What the growth that is not answered yet asks for, a first context included."""
        if self.growth is None:
            return 0
        return max(0, self.growth.footprint_bytes - self.footprint_bytes) + self.more_unmovable_bytes

    def snapshot(self, now: float) -> SwapSnapshot:
        """What can be seen of it at ``now``."""
        waits_for_it = self.is_moving or self.going_by < self.order
        return SwapSnapshot(
            resident_bytes=self.resident_bytes,
            out_bytes=self.footprint_bytes - self.resident_bytes,
            fixed_bytes=self.fixed_bytes,
            allotted_bytes=self.allotted_bytes,
            admitted_bytes=self.admitted_bytes,
            arena_bytes=self.arena_bytes,
            usable_bytes=self.usable_bytes,
            in_bytes=self._coming_bytes + max(0, self.resident_bytes + self.out_bytes - self.footprint_bytes),
            leaving_bytes=max(0, self.resident_bytes - self.allotted_bytes),
            wanted_bytes=self.wanted_bytes,
            wait="" if self.wait is None else self.wait.reason,
            still_seconds=max(0.0, now - self.progress_at) if waits_for_it else 0.0,
            came_bytes=self.came_bytes,
            left_bytes=self.left_bytes,
        )

    @property
    def _coming_bytes(self) -> int:
        """What comes in now: where there is room for a part of a chunk only, nothing does."""
        room = self.allotted_bytes - self.resident_bytes
        lacking = self.footprint_bytes - self.resident_bytes
        return max(0, min(room, lacking)) if room >= min(lacking, CHUNK_BYTES) else 0

    def _tell(self, allotted_bytes: int, now: float) -> None:
        if self.going_by == self.order and not self.is_moving:
            self.progress_at = now
        self.order += 1
        self.allotted_bytes = allotted_bytes
        self._told.append((self.order, allotted_bytes, self.admitted_bytes))
        self._charge()

    def _charge(self) -> None:
        self.charge_bytes = max(self.resident_bytes, *(allotted_bytes for _, allotted_bytes, _ in self._told))
        self.pledged_bytes = max(admitted_bytes for _, _, admitted_bytes in self._told)


def moved_bytes(footprint_bytes: tuple[int, int], out_bytes: tuple[int, int]) -> tuple[int, int]:
    """What came in and what left, from a client's footprint and what of it is copied out, before and after."""
    copied = out_bytes[1] - out_bytes[0]
    return max(0, -copied - max(0, footprint_bytes[0] - footprint_bytes[1])), max(0, copied)

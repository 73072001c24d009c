"""The room's state against a scheduler that hears late: what is resident is never more than that one charges."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nvshare._core import ffi, lib

NEVER: int = lib.NVS_ROOM_NEVER
MOVABLE, FIXED, CONTEXT = lib.NVS_ROOM_MOVABLE, lib.NVS_ROOM_FIXED, lib.NVS_ROOM_CONTEXT
IN, OUT, WAIT = lib.NVS_ROOM_IN, lib.NVS_ROOM_OUT, lib.NVS_ROOM_WAIT
BRING_OUT, BRING_IN = lib.NVS_ROOM_BRING_OUT, lib.NVS_ROOM_BRING_IN
UP, DOWN, UNAWARE, NEW = (
    lib.NVS_ROOM_LINK_UP,
    lib.NVS_ROOM_LINK_DOWN,
    lib.NVS_ROOM_LINK_UNAWARE,
    lib.NVS_ROOM_LINK_NEW,
)
SAY_US = 10_000
HUGE = 1 << 62

amounts = st.integers(1, 8)


class Room:
    """The state, with the time."""

    def __init__(self) -> None:
        self.state: Any = ffi.new("struct nvs_room_state *")
        lib.nvs_room_state_init(self.state)
        self.now = 0

    def link(self, link: int) -> None:
        """The link has become so."""
        lib.nvs_room_state_link(self.state, link)

    def allot(self, order: int, allotted: int, admitted: int, request: int = 0) -> bool:
        """ALLOT came."""
        frame = ffi.new("struct nvs_frame *", {"type": lib.NVS_ALLOT, "request": request})
        frame.memory.order, frame.memory.allotted_bytes, frame.memory.admitted_bytes = order, allotted, admitted
        return bool(lib.nvs_room_state_allot(self.state, frame))

    def evict(self, order: int, allotted: int) -> bool:
        """EVICT came."""
        frame = ffi.new("struct nvs_frame *", {"type": lib.NVS_EVICT})
        frame.memory.order, frame.memory.allotted_bytes = order, allotted
        return bool(lib.nvs_room_state_allot(self.state, frame))

    def try_(self, kind: int, size: int) -> int:
        """Whether so much may be had now."""
        return int(lib.nvs_room_state_try(self.state, kind, size))

    def take(self, kind: int, size: int) -> int:
        """Takes what may be had; the answer."""
        answer = self.try_(kind, size)
        if answer != WAIT:
            lib.nvs_room_state_take(self.state, kind, size, answer)
        return answer

    def next(self) -> tuple[int, int]:
        """What the mover should do, and of how much."""
        size = ffi.new("uint64_t *")
        return int(lib.nvs_room_state_next(self.state, size)), int(size[0])

    def say(self, everything: bool = False) -> Any:
        """The next frame; None: nothing is to be said now."""
        frame = ffi.new("struct nvs_frame *")
        return frame if lib.nvs_room_state_say(self.state, self.now, everything, frame) else None

    def says(self, everything: bool = False) -> list[Any]:
        """All that is to be said now."""
        frames = []
        while frame := self.say(everything):
            frames.append(frame)
            assert len(frames) < 5, "it says the same again and again"
        return frames


def registered() -> Room:
    """With a scheduler that has said nothing, and has heard how it is."""
    room = Room()
    room.link(UP)
    assert [frame.type for frame in room.says()] == [lib.NVS_RESIDENT]
    return room


def test_nothing_is_limited_without_a_scheduler() -> None:
    """Nor by one that knows nothing of it."""
    for link in (NEW, DOWN, UNAWARE):
        room = Room()
        room.link(link)
        assert room.take(MOVABLE, HUGE) == IN
        assert room.take(FIXED, HUGE) == IN
        assert room.next()[0] == lib.NVS_ROOM_NOTHING
        assert not room.says(True)


def test_the_first_context_waits_for_a_scheduler() -> None:
    """Until it is known whether there is one, and until that one has answered; no later one waits."""
    room = Room()
    assert room.try_(CONTEXT, 0) == WAIT
    room.link(DOWN)
    assert room.try_(CONTEXT, 0) == IN
    room.link(UP)
    assert room.try_(CONTEXT, 0) == WAIT
    lib.nvs_room_state_want(room.state, CONTEXT, 0)
    _resident, grow = room.says()
    assert (grow.type, grow.footprint_bytes, grow.memory.fixed_bytes) == (lib.NVS_GROW, 0, 0)
    assert room.allot(1, 0, 0, grow.request)
    assert room.try_(CONTEXT, 0) == IN
    room.link(DOWN)
    room.link(UP)
    assert room.try_(CONTEXT, 0) == IN


def test_an_older_order_is_an_error() -> None:
    """Orders count up; a frame that says otherwise changes nothing."""
    room = registered()
    assert room.allot(2, 10, 10)
    assert not room.evict(2, 5)
    assert not room.allot(1, 20, 20)
    assert room.state.allotted_bytes == 10


def test_a_holder_keeps_what_is_resident() -> None:
    """A lower allotment counts when the lock is given back; one above what is resident at once."""
    room = registered()
    room.allot(1, 10, 10)
    assert room.take(MOVABLE, 6) == IN
    lib.nvs_room_state_hold(room.state)
    room.evict(2, 8)
    assert room.state.order == 2
    room.evict(3, 4)
    assert (room.state.order, room.next()[0]) == (2, lib.NVS_ROOM_NOTHING)
    assert [frame.memory.order for frame in room.says()] == [2]
    lib.nvs_room_state_release(room.state)
    assert (room.state.order, room.next()) == (3, (BRING_OUT, 2))
    assert [frame.memory.order for frame in room.says()] == [3]


def test_a_holder_asks_for_what_it_may_not_have_here() -> None:
    """What was allocated while another had the device, and was granted the lock meanwhile."""
    room = registered()
    room.allot(1, 0, 10)
    assert room.take(MOVABLE, 6) == OUT
    lib.nvs_room_state_hold(room.state)
    assert not lib.nvs_room_state_ready(room.state)
    *_, grow = room.says(True)
    assert (grow.type, grow.footprint_bytes) == (lib.NVS_GROW, 6)
    room.allot(2, 6, 10, grow.request)
    assert room.next() == (BRING_IN, 6)
    assert lib.nvs_room_state_enter(room.state, 6)
    assert not lib.nvs_room_state_ready(room.state)
    lib.nvs_room_state_entered(room.state, 6, True)
    assert lib.nvs_room_state_ready(room.state)


def test_a_chunk_that_leaves_keeps_the_gate_closed() -> None:
    """The lock may come while one is on its way out: what is half gone is not here."""
    room = registered()
    room.allot(1, 10, 10)
    room.take(MOVABLE, 6)
    room.evict(2, 0)
    lib.nvs_room_state_leave(room.state, 6)
    lib.nvs_room_state_hold(room.state)
    assert not lib.nvs_room_state_ready(room.state)
    lib.nvs_room_state_left(room.state, 6, False)
    assert lib.nvs_room_state_ready(room.state)


def test_refused_is_who_waits() -> None:
    """And nobody whose wish came after the one that is refused."""
    room = registered()
    lib.nvs_room_state_want(room.state, MOVABLE, 6)
    (first,) = room.says()
    lib.nvs_room_state_want(room.state, MOVABLE, 7)
    assert not lib.nvs_room_state_refuse(room.state, first.request)
    (second,) = room.says()
    assert second.request == first.request + 1
    assert not lib.nvs_room_state_refuse(room.state, first.request)
    assert lib.nvs_room_state_refuse(room.state, second.request)


def test_a_grant_that_does_not_do_is_asked_for_again_later() -> None:
    """And not at once, for ever."""
    room = registered()
    lib.nvs_room_state_want(room.state, MOVABLE, 6)
    (grow,) = room.says()
    room.allot(1, 0, 5, grow.request)
    assert all(frame.type == lib.NVS_RESIDENT for frame in room.says(True))
    room.now = lib.nvs_room_state_deadline(room.state)
    assert room.says()[-1].request == grow.request + 1


def test_residence_is_said_every_ten_milliseconds_at_most() -> None:
    """But at once when a transfer comes further, and before the lock is asked for."""
    room = registered()
    room.allot(1, 10, 10)
    room.now = SAY_US
    assert len(room.says()) == 1
    room.take(MOVABLE, 4)
    assert not room.says()
    assert lib.nvs_room_state_deadline(room.state) == 2 * SAY_US
    assert len(room.says(True)) == 1
    assert lib.nvs_room_state_deadline(room.state) == NEVER
    room.evict(2, 0)
    assert len(room.says()) == 1
    lib.nvs_room_state_leave(room.state, 4)
    lib.nvs_room_state_left(room.state, 4, True)
    assert [frame.memory.resident_bytes for frame in room.says()] == [0]


def test_what_is_lacking_is_said_once() -> None:
    """Each time that the driver has refused it."""
    room = registered()
    for _ in range(2):
        lib.nvs_room_state_lack(room.state, 5)
        assert [frame.memory.lacking_bytes for frame in room.says()] == [5]
        lib.nvs_room_state_set_arena(room.state, room.state.arena_bytes + 1, 0)
        assert [frame.memory.lacking_bytes for frame in room.says(True)] == [0]


class Late(RuleBasedStateMachine):
    """A client and a scheduler whose frames take as long as they like; the scheduler may be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.to_client: deque[tuple[int, int, int, int]] = deque()
        self.to_scheduler: deque[Any] = deque()
        self.order = 0
        self.allotments: dict[int, int] = {}
        """Those that the client may still go by, by their orders; under 0 what it is charged with from its start."""
        self.admitted = 0
        self.wish: Any = None
        self.resident = 0
        """As the scheduler knows it."""
        self.waiting: tuple[int, int] | None = None
        self.leaving: list[int] = []
        self.entering: list[int] = []

    @property
    def state(self) -> Any:
        """The client's."""
        return self.room.state

    @property
    def up(self) -> bool:
        """There is a scheduler."""
        return bool(self.state.link == UP)

    def serve(self) -> None:
        """Whoever waits goes on when it may, as room_lock.c sees to."""
        if self.waiting and self.room.take(*self.waiting) != WAIT:
            self.waiting = None
        if self.waiting:
            lib.nvs_room_state_want(self.state, *self.waiting)
        else:
            lib.nvs_room_state_want_none(self.state)

    @precondition(lambda self: not self.up)
    @rule()
    def connect(self) -> None:
        """A scheduler that knows nothing; REGISTER has said the footprint."""
        self.to_client.clear()
        self.to_scheduler.clear()
        self.order, self.wish = 0, None
        self.room.link(UP)
        self.allotments = {0: self.state.footprint_bytes}
        self.admitted = self.state.footprint_bytes
        self.resident = self.state.resident_bytes
        self.serve()

    @precondition(lambda self: self.up)
    @rule()
    def disconnect(self) -> None:
        """It is gone."""
        self.room.link(DOWN)
        self.serve()
        assert not self.waiting

    @precondition(lambda self: not self.waiting)
    @rule(size=amounts, kind=st.sampled_from([MOVABLE, FIXED]))
    def ask(self, size: int, kind: int) -> None:
        """A thread allocates."""
        self.waiting = kind, size
        self.serve()

    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        """Something is freed, in or out, that does not move."""
        state = self.state
        here = state.resident_bytes - sum(self.leaving) - sum(self.entering)
        out = state.footprint_bytes - state.resident_bytes
        size = data.draw(st.integers(0, here + out))
        resident = data.draw(st.integers(max(0, size - out), min(size, here)))
        lib.nvs_room_state_give(state, size, resident)
        self.serve()

    @rule(size=amounts)
    def pin(self, size: int) -> None:
        """Something resident is exported."""
        here = self.state.resident_bytes - sum(self.leaving) - sum(self.entering)
        if size <= here:
            lib.nvs_room_state_pin(self.state, size)
            self.serve()

    @rule()
    def hold_or_release(self) -> None:
        """The lock comes, or goes."""
        (lib.nvs_room_state_release if self.state.held else lib.nvs_room_state_hold)(self.state)
        self.serve()

    @rule(size=amounts)
    def move(self, size: int) -> None:
        """The mover begins with a chunk, if it should."""
        move, most = self.room.next()
        staying = self.state.resident_bytes - sum(self.leaving) - sum(self.entering)
        if move == BRING_OUT and size <= staying:
            lib.nvs_room_state_leave(self.state, size)
            self.leaving.append(size)
        elif lib.nvs_room_state_enter(self.state, size):
            assert move == BRING_IN
            assert size <= most
            self.entering.append(size)
        self.serve()

    @rule(works=st.booleans())
    def arrive(self, works: bool) -> None:
        """A chunk is where it should go, or stays."""
        if self.leaving:
            lib.nvs_room_state_left(self.state, self.leaving.pop(0), works)
        elif self.entering:
            lib.nvs_room_state_entered(self.state, self.entering.pop(0), works)
        self.serve()

    @precondition(lambda self: self.up)
    @rule(later=st.integers(0, 2 * SAY_US), everything=st.booleans())
    def say(self, later: int, everything: bool) -> None:
        """What is to be said is on its way."""
        self.room.now += later
        self.to_scheduler.extend(self.room.says(everything))

    @precondition(lambda self: self.up and self.to_scheduler)
    @rule()
    def hear(self) -> None:
        """The scheduler hears one frame."""
        frame = self.to_scheduler.popleft()
        if frame.type == lib.NVS_GROW:
            self.wish = frame
            return
        assert frame.memory.order in self.allotments, "it goes by what it was never told, or not any more"
        self.resident = frame.memory.resident_bytes
        self.allotments = {
            order: allotted for order, allotted in self.allotments.items() if order >= frame.memory.order
        }

    @precondition(lambda self: self.up)
    @rule(allotted=st.integers(0, 40), more=st.integers(0, 10), grants=st.booleans())
    def order_(self, allotted: int, more: int, grants: bool) -> None:
        """The scheduler says something: by chance, or what was wished for."""
        self.order += 1
        request = 0
        self.admitted += more
        if self.wish is not None and grants:
            self.admitted = max(self.admitted, self.wish.footprint_bytes)
            allotted, request = max(allotted, self.wish.footprint_bytes), self.wish.request
            self.wish = None
        self.allotments[self.order] = allotted
        self.to_client.append((self.order, allotted, self.admitted, request))

    @precondition(lambda self: self.up and self.to_client)
    @rule()
    def obey(self) -> None:
        """The client hears one frame."""
        assert self.room.allot(*self.to_client.popleft())
        self.serve()

    @invariant()
    def what_is_charged_is_enough(self) -> None:
        """What is resident, and the footprint, are within what this scheduler has said."""
        if self.up:
            assert self.state.resident_bytes <= max([self.resident, *self.allotments.values()])
            assert self.state.footprint_bytes <= self.admitted

    @invariant()
    def the_sums_are_right(self) -> None:
        """Resident is part of the footprint, what moves is part of that, and the gate is open for nothing less."""
        state = self.state
        assert state.leaving_bytes == sum(self.leaving)
        assert state.entering_bytes == sum(self.entering)
        assert sum(self.leaving) + sum(self.entering) <= state.resident_bytes <= state.footprint_bytes < HUGE
        if lib.nvs_room_state_ready(state):
            assert state.resident_bytes == state.footprint_bytes
            assert not self.leaving
            assert not self.entering

    @invariant()
    def nobody_waits_in_silence(self) -> None:
        """Whoever waits has asked for it, or will."""
        if self.waiting and self.up:
            asked = self.state.answered != self.state.request
            assert asked or lib.nvs_room_state_deadline(self.state) != NEVER

    def teardown(self) -> None:
        """In the end a scheduler that grants everything brings everybody on, and everything in."""
        if not self.up:
            self.connect()
        while self.leaving or self.entering:
            self.arrive(True)
        if not self.state.held:
            self.hold_or_release()
        for _ in range(20):
            self.say(2 * SAY_US, True)
            while self.to_scheduler:
                self.hear()
            self.order_(1000, 1000, True)
            while self.to_client:
                self.obey()
            self.move(self.room.next()[1])
            self.arrive(True)
        assert not self.waiting
        assert lib.nvs_room_state_ready(self.state)


TestLate = Late.TestCase
TestLate.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)

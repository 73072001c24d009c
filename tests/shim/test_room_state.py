"""The room's state, step by step: what may be had, what is said, what moves."""

from __future__ import annotations

import pytest

from tests.c_parts import lib
from tests.shim.room_state_model import (
    BRING_IN,
    BRING_OUT,
    CONTEXT,
    DOWN,
    FIXED,
    HUGE,
    IN,
    MOVABLE,
    MOVED_US,
    NEVER,
    NEW,
    OUT,
    SAY_US,
    UNAWARE,
    UP,
    WAIT,
    Room,
    registered,
)


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


def test_nothing_leaves_once_the_lock_is_there() -> None:
    """Although the mover was told so: the order may be taken back, and the lock come, before it begins."""
    room = registered()
    room.allot(1, 10, 10)
    room.take(MOVABLE, 6)
    room.evict(2, 0)
    assert room.next() == (BRING_OUT, 6)
    room.allot(3, 10, 10)
    lib.nvs_room_state_hold(room.state)
    assert lib.nvs_room_state_ready(room.state)
    assert not lib.nvs_room_state_leave(room.state, 6)
    assert lib.nvs_room_state_ready(room.state)


def test_only_who_does_not_hold_does_without() -> None:
    """What the driver has not made may be out while the gate is closed; with the lock the gate may be open by then."""
    room = registered()
    room.allot(1, 10, 10)
    room.take(MOVABLE, 6)
    assert lib.nvs_room_state_forgo(room.state, 2, 6)
    assert room.next() == (BRING_IN, 2)
    lib.nvs_room_state_hold(room.state)
    assert not lib.nvs_room_state_ready(room.state)
    assert not lib.nvs_room_state_forgo(room.state, 2, 6)
    assert room.next() == (BRING_IN, 2)


def test_what_could_never_be_there_is_not_done_without() -> None:
    """Where no scheduler says what there may be, all that the process has must fit into what is usable."""
    room = Room()
    room.take(FIXED, 3)
    room.take(MOVABLE, 6)
    assert not lib.nvs_room_state_forgo(room.state, 2, 8)
    assert not lib.nvs_room_state_forgo(room.state, 2, 2)
    assert lib.nvs_room_state_forgo(room.state, 2, 9)
    assert (room.state.footprint_bytes, room.state.resident_bytes) == (6, 4)


@pytest.mark.parametrize(("kind", "held"), [(MOVABLE, False), (MOVABLE, True), (FIXED, False), (CONTEXT, False)])
def test_what_the_driver_has_not_waits_for_the_next_scheduler(kind: int, held: bool) -> None:
    """It asks for it, as if it had never been had; what the driver has is had without one."""
    room = registered()
    room.allot(1, 4, 4)
    assert room.take(MOVABLE, 4) == IN
    if held:
        lib.nvs_room_state_hold(room.state)
    size = 0 if kind == CONTEXT else 6
    room.link(DOWN)
    assert room.take(kind, size) == IN
    assert kind != MOVABLE or not lib.nvs_room_state_forgo(room.state, size, 100)
    room.take_back(kind, size)
    assert (room.state.footprint_bytes, room.state.resident_bytes, room.state.fixed_bytes) == (4, 4, 0)
    assert room.take(kind, size, again=True) == WAIT
    assert room.try_(MOVABLE, 1) == IN
    lib.nvs_room_state_want(room.state, kind, size)
    assert not room.says(True)
    room.link(UP)
    assert room.take(kind, size, again=True) == WAIT
    resident, grow = room.says()
    assert (resident.footprint_bytes, resident.memory.resident_bytes, resident.memory.fixed_bytes) == (4, 4, 0)
    footprint, fixed = 4 + size * (kind == MOVABLE), size * (kind == FIXED)
    assert (grow.type, grow.footprint_bytes, grow.memory.fixed_bytes) == (lib.NVS_GROW, footprint, fixed)
    room.allot(1, footprint, footprint, grow.request)
    assert room.take(kind, size, again=True) == IN


@pytest.mark.parametrize(("link", "answer"), [(NEW, IN), (DOWN, WAIT), (UNAWARE, IN)])
def test_who_never_had_a_scheduler_waits_for_the_first(link: int, answer: int) -> None:
    """It may come between two of them. For one that knows nothing of memory that swaps nobody waits: what the driver
    has not, that can make no room for."""
    room = Room()
    room.link(link)
    assert room.take(MOVABLE, 6) == IN
    room.take_back(MOVABLE, 6)
    assert room.take(MOVABLE, 6, again=True) == answer


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
    """But before the lock is asked for, and each millisecond while memory moves."""
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
    for _ in range(2):
        lib.nvs_room_state_leave(room.state, 2)
        lib.nvs_room_state_left(room.state, 2, True)
    assert not room.says()
    assert lib.nvs_room_state_deadline(room.state) == room.now + MOVED_US
    room.now += MOVED_US
    assert [frame.memory.resident_bytes for frame in room.says()] == [0]


def test_what_moves_is_not_said_chunk_by_chunk() -> None:
    """Memory without contents comes in at once: the scheduler could not read so many messages."""
    room = registered()
    room.allot(1, 0, 1000)
    for _ in range(1000):
        assert room.take(MOVABLE, 1) == OUT
    room.allot(2, 1000, 1000)
    room.says()
    said = 0
    for _ in range(1000):
        room.now += 10
        assert lib.nvs_room_state_enter(room.state, 1)
        lib.nvs_room_state_entered(room.state, 1, True)
        said += len(room.says())
    assert said == 1000 * 10 / MOVED_US


def test_what_is_lacking_is_said_once() -> None:
    """Each time that the driver has refused it."""
    room = registered()
    for _ in range(2):
        lib.nvs_room_state_lack(room.state, 5)
        assert [frame.memory.lacking_bytes for frame in room.says()] == [5]
        lib.nvs_room_state_set_arena(room.state, room.state.received_bytes + 1, 0, 0)
        assert [frame.memory.lacking_bytes for frame in room.says(True)] == [0]


def test_never_more_than_the_footprint_is_here() -> None:
    """What the mover has in hand may be freed before it has said what became of it."""
    room = registered()
    room.allot(1, 10, 10)
    room.take(MOVABLE, 6)
    room.evict(2, 0)
    lib.nvs_room_state_leave(room.state, 6)
    lib.nvs_room_state_give(room.state, 6, 0)
    said = room.says(True)[-1].memory
    assert (said.resident_bytes, said.out_bytes) == (0, 0)
    lib.nvs_room_state_left(room.state, 6, True)
    room.take(MOVABLE, 4)
    room.allot(3, 10, 10)
    assert lib.nvs_room_state_enter(room.state, 4)
    lib.nvs_room_state_give(room.state, 4, 0)
    said = room.says(True)[-1].memory
    assert (said.resident_bytes, said.out_bytes) == (0, 0)
    lib.nvs_room_state_entered(room.state, 4, False)
    room.says(True)
    assert room.state.said_resident_bytes == room.state.resident_bytes == 0


def test_a_holder_has_all_of_it_here() -> None:
    """Nothing is made without device memory, and nothing leaves that had to before the lock came."""
    room = registered()
    room.allot(1, 4, 10)
    assert room.take(MOVABLE, 4) == IN
    assert room.try_(MOVABLE, 2) == OUT
    room.evict(2, 1)
    assert room.next() == (BRING_OUT, 3)
    lib.nvs_room_state_hold(room.state)
    assert room.next()[0] == lib.NVS_ROOM_NOTHING
    assert room.try_(MOVABLE, 2) == WAIT


def test_without_a_scheduler_only_a_holder_goes_on() -> None:
    """What another one left to somebody else it may be using still."""
    room = registered()
    room.allot(1, 4, 10)
    assert room.take(MOVABLE, 4) == IN
    room.link(DOWN)
    assert room.try_(MOVABLE, 2) == OUT
    lib.nvs_room_state_hold(room.state)
    assert room.try_(MOVABLE, 2) == IN


def test_the_next_scheduler_charges_no_more_than_there_is() -> None:
    """What the last one allotted on top is nobody's any more."""
    room = registered()
    room.allot(1, 10, 10)
    assert room.take(MOVABLE, 4) == IN
    room.link(UP)
    assert room.state.allotted_bytes == 4

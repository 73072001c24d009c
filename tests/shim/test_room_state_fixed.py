"""The room's state: memory that can't move, and how long what was given back counts."""

from __future__ import annotations

import pytest

from tests.c_parts import lib
from tests.shim.room_state_model import (
    CONTEXT,
    DOWN,
    FIXED,
    HOLDER_KEEP_US,
    IN,
    KEEP_US,
    MOVABLE,
    NEVER,
    SAY_US,
    UP,
    WAIT,
    Room,
    registered,
)


def test_what_becomes_fixed_was_given_once() -> None:
    """Together with what may still move it stays what it was."""
    room = registered()
    room.allot(1, 10, 10)
    assert room.take(MOVABLE, 6) == IN
    lib.nvs_room_state_pin(room.state, 4)
    assert (room.state.allotted_bytes, room.state.admitted_bytes, room.state.fixed_bytes) == (6, 6, 4)


def fixed_of_ten() -> Room:
    """Of which nine are given back."""
    room = registered()
    lib.nvs_room_state_want(room.state, FIXED, 10)
    [grow] = room.says()
    assert room.allot(1, 0, 0, grow.request)
    assert room.take(FIXED, 10) == IN
    lib.nvs_room_state_want_none(room.state)
    room.now += SAY_US
    assert [frame.memory.fixed_bytes for frame in room.says()] == [10]
    lib.nvs_room_state_count_fixed(room.state, -9)
    return room


def test_fixed_memory_of_each_step_is_not_asked_for_again() -> None:
    """What a program takes and gives back again and again it has, and nothing is said of it."""
    room = fixed_of_ten()
    for _ in range(100):
        room.now += KEEP_US // 4
        assert not room.says()
        assert room.take(FIXED, 9) == IN
        assert lib.nvs_room_state_deadline(room.state) == NEVER
        lib.nvs_room_state_count_fixed(room.state, -9)


def test_a_holder_keeps_fixed_memory_for_its_next_step() -> None:
    """However long a step takes, up to a second; who gives the lock back keeps nothing, and says so."""
    room = fixed_of_ten()
    lib.nvs_room_state_hold(room.state)
    for _ in range(5):
        for _ in range(HOLDER_KEEP_US // KEEP_US):
            room.now += KEEP_US
            assert not room.says()
        assert room.take(FIXED, 9) == IN
        lib.nvs_room_state_count_fixed(room.state, -9)
    lib.nvs_room_state_release(room.state)
    assert [frame.memory.fixed_bytes for frame in room.says(True)] == [1]
    assert room.try_(FIXED, 9) == WAIT


def test_fixed_memory_that_is_kept_is_told_with_the_rest() -> None:
    """What there is to say of other memory meanwhile does not give it back."""
    room = fixed_of_ten()
    assert room.allot(2, 0, 0)
    assert [frame.memory.fixed_bytes for frame in room.says()] == [10]
    assert room.take(FIXED, 9) == IN


def test_fixed_memory_is_not_kept_from_others() -> None:
    """Who is asked to make room, or only what it has, says at once what there is, and has to ask for more again."""
    room = fixed_of_ten()
    assert room.evict(2, room.state.allotted_bytes)
    assert [frame.memory.fixed_bytes for frame in room.says()] == [1]
    assert room.try_(FIXED, 9) == WAIT
    assert lib.nvs_room_state_deadline(room.state) == NEVER


def test_fixed_memory_that_was_given_back_is_told_in_the_end() -> None:
    """And asked for again: the scheduler counts what it is told."""
    room = fixed_of_ten()
    while not room.says():
        assert room.try_(FIXED, 9) == IN
        assert room.now < lib.nvs_room_state_deadline(room.state) <= 2 * KEEP_US + SAY_US
        room.now = lib.nvs_room_state_deadline(room.state)
    assert room.state.said_fixed_bytes == 1
    assert room.try_(FIXED, 9) == WAIT
    assert lib.nvs_room_state_deadline(room.state) == NEVER


@pytest.mark.parametrize("kind", [MOVABLE, CONTEXT])
def test_fixed_memory_is_not_kept_from_what_is_wanted(kind: int) -> None:
    """Who wants memory of another kind says first what it has really, and does not take it back afterwards."""
    room = fixed_of_ten()
    lib.nvs_room_state_want(room.state, kind, 5 * (kind == MOVABLE))
    resident, grow = room.says()
    assert (resident.type, resident.memory.fixed_bytes) == (lib.NVS_RESIDENT, 1)
    assert (grow.type, grow.memory.fixed_bytes) == (lib.NVS_GROW, 1)
    assert room.try_(FIXED, 9) == WAIT
    lib.nvs_room_state_want_none(room.state)
    room.now += SAY_US
    assert not any(frame.memory.fixed_bytes > 1 for frame in room.says(True))


def test_fixed_memory_that_moves_again_is_counted_once() -> None:
    """Not as what was kept, too."""
    room = fixed_of_ten()
    lib.nvs_room_state_pin(room.state, -1)
    [resident] = room.says()
    assert (resident.footprint_bytes, resident.memory.fixed_bytes) == (1, 0)


def test_another_scheduler_hears_what_is_there() -> None:
    """It has given nothing that could be kept."""
    room = fixed_of_ten()
    room.link(DOWN)
    room.link(UP)
    assert [frame.memory.fixed_bytes for frame in room.says()] == [1]

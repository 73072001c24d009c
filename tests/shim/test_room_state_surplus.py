"""When host memory goes back, as room_state.c sees it."""

from __future__ import annotations

from tests.c_parts import lib
from tests.shim.room_state_model import MOVABLE, UP, Room

SURPLUS_US = 10_000_000


def with_arena(admitted: int, *, received: int = 10) -> Room:
    """It has been admitted so much, uses two of that, and has said what host memory it has."""
    room = Room()
    room.link(UP)
    room.allot(1, admitted, admitted)
    room.take(MOVABLE, 2)
    lib.nvs_room_state_set_arena(room.state, received, received, 0)
    room.says(True)
    return room


def surplus(room: Room, later: int = SURPLUS_US) -> int:
    """How much is to go back so much later."""
    return int(lib.nvs_room_state_surplus(room.state, room.now + later))


def test_what_is_beyond_the_admitted_goes_back() -> None:
    """After a while, and not what may be allocated unasked."""
    room = with_arena(6)
    assert (surplus(room, SURPLUS_US - 1), surplus(room)) == (0, 4)
    assert surplus(with_arena(10)) == surplus(with_arena(11)) == 0


def test_what_is_used_needs_it_whatever_is_admitted() -> None:
    """What was admitted may be taken back when it has been used already."""
    room = with_arena(6)
    room.allot(2, 6, 1)
    room.says(True)
    assert surplus(room) == 8


def test_not_during_a_turn() -> None:
    """It goes when that is over."""
    room = with_arena(6)
    lib.nvs_room_state_hold(room.state)
    assert surplus(room) == 0
    lib.nvs_room_state_release(room.state)
    assert surplus(room) == 4


def test_not_while_more_is_wanted() -> None:
    """What it is for may be sent before it is admitted. Afterwards the time begins anew."""
    room = with_arena(6)
    lib.nvs_room_state_want(room.state, MOVABLE, 5)
    assert [frame.type for frame in room.says(True)][-1] == lib.NVS_GROW
    lib.nvs_room_state_set_arena(room.state, 12, 12, 0)
    room.says(True)
    assert surplus(room) == 0
    room.now += SURPLUS_US
    assert room.allot(2, 7, 7, request=room.state.request)
    room.take(MOVABLE, 5)
    lib.nvs_room_state_want_none(room.state)
    room.says(True)
    assert (surplus(room, SURPLUS_US - 1), surplus(room)) == (0, 5)


def test_what_could_not_go_stays_until_something_happens() -> None:
    """Otherwise the mover would try again and again."""
    room = with_arena(6)
    lib.nvs_room_state_keep_surplus(room.state)
    assert surplus(room, 10 * SURPLUS_US) == 0
    lib.nvs_room_state_give(room.state, 1, 1)
    room.says(True)
    assert surplus(room) == 4


def test_it_is_said() -> None:
    """What there is, and of all that ever came what went back; threads may tell the room in any order."""
    room = with_arena(6)
    lib.nvs_room_state_set_arena(room.state, 12, 11, 3)
    (said,) = (frame.memory for frame in room.says(True))
    assert (said.arena_bytes, said.usable_bytes, said.segment_bytes) == (9, 8, 3)
    lib.nvs_room_state_set_arena(room.state, 11, 10, 0)
    assert not room.says(True)

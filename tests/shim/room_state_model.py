"""The state of room_state.c as a Python object."""

from __future__ import annotations

from typing import Any

from tests.c_parts import ffi, lib

NEVER: int = lib.NVS_ROOM_NEVER
MOVABLE: int = lib.NVS_ROOM_MOVABLE
FIXED: int = lib.NVS_ROOM_FIXED
CONTEXT: int = lib.NVS_ROOM_CONTEXT
IN: int = lib.NVS_ROOM_IN
OUT: int = lib.NVS_ROOM_OUT
WAIT: int = lib.NVS_ROOM_WAIT
BRING_OUT: int = lib.NVS_ROOM_BRING_OUT
BRING_IN: int = lib.NVS_ROOM_BRING_IN
UP: int = lib.NVS_ROOM_LINK_UP
DOWN: int = lib.NVS_ROOM_LINK_DOWN
UNAWARE: int = lib.NVS_ROOM_LINK_UNAWARE
NEW: int = lib.NVS_ROOM_LINK_NEW
SAY_US = 10_000
MOVED_US = 1_000
KEEP_US = 10_000
HOLDER_KEEP_US = 1_000_000
HUGE = 1 << 62


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

    def take(self, kind: int, size: int, again: bool = False) -> int:
        """Takes what may be had; the answer. ``again``: the driver had none."""
        answer = lib.nvs_room_state_try_again(self.state, kind, size) if again else self.try_(kind, size)
        if answer != WAIT:
            lib.nvs_room_state_take(self.state, kind, size, answer)
        return int(answer)

    def take_back(self, kind: int, size: int) -> None:
        """The driver has none of what was taken."""
        lib.nvs_room_state_take_back(self.state, kind, size)

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

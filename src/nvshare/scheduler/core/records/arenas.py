"""How much host memory each client of a device gets to swap into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GRANULE_BYTES: Final = 2 << 20
SEGMENT_BYTES: Final = 256 << 20
"""The most that is one segment: several of a client are filled side by side, as the kernel fills a file but once."""
AT_ONCE_BYTES: Final = 1 << 30
"""The most that is made at once, so that the first one is there soon: filling it takes 0.4 s."""
CHUNK_BYTES: Final = 64 << 20
"""The most that a client moves as a whole: what is left of its host memory may be too little for the next one."""
AHEAD_SHARE: Final = 0.1
"""Host memory is made while so much of the device is still to spare."""


@dataclass(frozen=True, slots=True)
class Arena:
    """One client's host memory: what there is, and the most that can be of use."""

    bytes: int
    useful_bytes: int

    @property
    def takes_bytes(self) -> int:
        """How much can surely leave into it."""
        return takes_bytes(self.bytes, self.useful_bytes)


def whole(size: int) -> int:
    """In whole granules."""
    return -(-size // GRANULE_BYTES) * GRANULE_BYTES


def takes_bytes(arena_bytes: int, useful_bytes: int) -> int:
    """How much can surely leave into so much host memory, of which at the most so much is of use."""
    return useful_bytes if arena_bytes >= useful_bytes else max(0, arena_bytes - (CHUNK_BYTES - GRANULE_BYTES))


def can_leave(arenas: Sequence[Arena]) -> int:
    """How much can leave the device for any one of the clients: what all arenas take but the one that takes most."""
    takes = [arena.takes_bytes for arena in arenas]
    return sum(takes) - max(takes, default=0)


def fill(arenas: Sequence[Arena], more_bytes: int) -> list[Arena]:
    """The arenas with so much more: as equal as can be, none smaller than it is, none larger than is of use."""
    budget_bytes = more_bytes + sum(arena.bytes for arena in arenas)
    low, high = 0, -(-max((arena.useful_bytes for arena in arenas), default=0) // GRANULE_BYTES)
    if sum(max(arena.bytes, arena.useful_bytes) for arena in arenas) <= budget_bytes:
        low = high
    elif more_bytes <= 0:
        return list(arenas)
    while low < high:
        middle = (low + high + 1) // 2
        level = middle * GRANULE_BYTES
        if sum(max(arena.bytes, min(arena.useful_bytes, level)) for arena in arenas) <= budget_bytes:
            low = middle
        else:
            high = middle - 1
    return _level(arenas, low * GRANULE_BYTES)


def _level(arenas: Sequence[Arena], level_bytes: int) -> list[Arena]:
    return [Arena(max(arena.bytes, min(arena.useful_bytes, level_bytes)), arena.useful_bytes) for arena in arenas]

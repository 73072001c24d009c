"""How much host memory each client of a device gets to swap into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GRANULE_BYTES: Final = 2 << 20
SEGMENT_BYTES: Final = 1 << 30
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


@dataclass(slots=True, eq=False)
class Host:
    """The host memory of all devices' clients."""

    budget_bytes: int
    used_bytes: int = 0
    departed_bytes: int = 0
    """Of it, what clients had that are gone; it will be free."""
    awaited: int = 0
    """Recorded clients of any device that are not back: nobody knows what they have of it."""
    file_budget_bytes: int = 0
    """What of the memory of clients that sleep may be in files instead."""
    file_used_bytes: int = 0
    """What is, or is to be."""
    storable_bytes: int = 0
    """Of what is used, what may go into files now."""
    packing_bytes: int = 0
    """Of what is used, what may be made for a new pack; when that is so some of it or as much is free."""
    sharable_bytes: int = 0
    """What those may let go of for packs who are asked, or may be now."""
    away_bytes: int = 0
    """The most that one process has in files or packs."""
    coming_bytes: int = 0
    """What one that comes back from there still lacks."""
    largest_bytes: int = 0
    """The most that a client might need lately."""
    has_sleepers: bool = False
    """Whether there are any that can sleep."""
    seen_bytes: tuple[int, int] = (0, 0)
    """What might be made when ``grew`` was last asked."""

    def grew(self) -> bool:
        """Whether more may be made, for some or for all, than when this was last asked."""
        before, self.seen_bytes = self.seen_bytes, (self.unused_bytes, self.left_bytes)
        return any(now > then for now, then in zip(self.seen_bytes, before, strict=True))

    @property
    def kept_bytes(self) -> int:
        """What is for one that falls asleep, or comes back from a file or a pack, and for nobody else."""
        sleeping_bytes = self.largest_bytes if self.file_budget_bytes and self.has_sleepers else 0
        return max(sleeping_bytes, self.away_bytes) + self.coming_bytes

    @property
    def unused_bytes(self) -> int:
        """What may be made now for one that falls asleep, or comes back from a file or a pack."""
        return self.budget_bytes - self.used_bytes

    @property
    def left_bytes(self) -> int:
        """What may be made now for all others."""
        return self.unused_bytes - self.kept_bytes

    @property
    def available_bytes(self) -> int:
        """What may be made, now or when the memory of those that are gone is free."""
        return self.left_bytes + self.departed_bytes

    @property
    def possible_bytes(self) -> int:
        """What may be made when what can go into files or packs has gone."""
        return self.available_bytes + self.storable_bytes + self.packing_bytes + self.sharable_bytes


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

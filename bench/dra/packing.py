"""What is left of GPUs when no more claims can be placed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Bin:
    """A GPU, as claims fill it."""

    free_bytes: int
    shares: int

    def fits(self, size: int) -> bool:
        return self.shares > 0 and self.free_bytes >= size

    def take(self, size: int) -> None:
        if not self.fits(size):
            raise ValueError(f"{size} bytes do not fit into {self}")
        self.free_bytes -= size
        self.shares -= 1


@dataclass(frozen=True, slots=True)
class Left:
    """What claims did not get, when no more can be placed."""

    placed: int
    pending: tuple[int, ...]
    """Their sizes, in bytes."""
    unusable_bytes: int
    """Free, and no pending claim fits into it."""
    without_share_bytes: int
    """The part of it that is on GPUs with no share left."""


def best_fit(bins: Sequence[Bin], sizes: Iterable[int]) -> Left:
    """Places each claim, in this order, where it leaves least memory; one that fits nowhere stays pending."""
    placed, pending = 0, []
    for size in sizes:
        fitting = [each for each in bins if each.fits(size)]
        if not fitting:
            pending.append(size)
            continue
        min(fitting, key=lambda each: each.free_bytes).take(size)
        placed += 1
    return left(bins, placed, pending)


def left(bins: Sequence[Bin], placed: int, pending: Sequence[int]) -> Left:
    """Raises ValueError where a pending claim could still be placed."""
    fitting = [size for size in pending if any(each.fits(size) for each in bins)]
    if fitting:
        raise ValueError(f"{len(fitting)} pending claims still fit, the smallest has {min(fitting)} bytes")
    unusable = sum(each.free_bytes for each in bins)
    return Left(placed, tuple(pending), unusable, sum(each.free_bytes for each in bins if not each.shares))

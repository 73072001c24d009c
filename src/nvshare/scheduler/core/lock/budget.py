"""What a compute limit leaves of one device's time to one container: a bucket that fills and is emptied by use.

It fills at ``limit`` seconds a second, and empties by a second a second while any of the container's clients holds or
leaves. When it is empty its holders leave. Then it has to be full before one holds again; where it was not emptied a
part of that is enough. Over any time the use is the limit's share of it, plus at most what the bucket holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEAST_SECONDS: Final = 0.05
PERIOD_SECONDS: Final = 0.2
"""So much time of the limit's share a bucket holds where hand-overs cost little: 2 % of what it may have of 10 s."""
ENOUGH: Final = 0.25
"""So full is full enough where it was not emptied."""


@dataclass(slots=True, eq=False)
class Budget:
    """The bucket of one container on one device."""

    limit: float
    most: float
    """What it holds, in seconds."""
    left: float
    at: float
    """When ``left`` was right."""
    used: bool = False
    exhausted: bool = False
    """It was emptied, and has not been full since."""

    def pass_time(self, now: float) -> None:
        """Brings it up to date."""
        self.exhausted = self.exhausted and now < self.ready_at
        self.left = min(self.most, self.left + (now - self.at) * (self.limit - self.used))
        self.at = now

    def use(self, used: bool, now: float) -> None:
        """From now on its time is used, or it is not."""
        if used is self.used:
            return
        self.pass_time(now)
        self.used = used
        self.exhausted = self.exhausted and not used

    def is_used_up(self, now: float) -> bool:
        """Whether its holders must leave, or nobody may hold before it is full again."""
        self.exhausted |= now >= self.empty_at
        return self.exhausted

    def refill(self, now: float) -> None:
        """It did not count until now."""
        self.left, self.at, self.exhausted = self.most, now, False

    def change(self, limit: float, most: float, now: float) -> None:
        """The limit is another, or what a turn needs. While it fills it does not get smaller: what a turn needs comes
        and goes, and who waits would lose what there is when that is little, and lack it when that is much."""
        self.pass_time(now)
        if self.used or limit != self.limit or most > self.most:
            self.limit, self.most = limit, most
            self.left = min(self.left, most)

    @property
    def empty_at(self) -> float:
        """When its holders must leave; infinite: nobody uses it, or they were asked to."""
        if not self.used or self.exhausted:
            return float("inf")
        return self.at + max(0.0, self.left) / (1 - self.limit)

    @property
    def ready_at(self) -> float:
        """From when on one may hold; infinite: not before those leave that use it."""
        if self.used:
            return float("inf") if self.exhausted else self.at
        return self.at + max(0.0, self.most * (1.0 if self.exhausted else ENOUGH) - self.left) / self.limit


def most_seconds(limit: float, needed: float) -> float:
    """What a bucket holds, where a turn is worth while that is as long as ``needed``."""
    return max(LEAST_SECONDS, limit * PERIOD_SECONDS, needed)

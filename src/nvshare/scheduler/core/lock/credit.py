"""What one container saved of one device's time, for bursts.

Its credit grows by its fair share of the time that passes, and shrinks by the time that it holds while somebody waits.
So who uses its bursts has no more than its share and what the credit holds at most, whatever else it does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Demand:
    """How much one device is wanted: sums over the time."""

    weight: float = 0.0
    """Of the containers that hold or wait now."""
    waiters: int = 0
    at: float = 0.0
    weight_seconds: float = 0.0
    wanted_seconds: float = 0.0
    """While somebody waited."""

    def pass_time(self, now: float) -> None:
        """Brings the sums up to date; before ``weight`` or ``waiters`` change."""
        elapsed = now - self.at
        if elapsed > 0:
            self.weight_seconds += elapsed * self.weight
            if self.waiters:
                self.wanted_seconds += elapsed
        self.at = now


@dataclass(slots=True, eq=False)
class Credit:
    """The credit of one container on one device, in seconds of that."""

    at: float
    """When ``seconds`` was right, and what the sums were then."""
    weight_seconds: float
    wanted_seconds: float
    seconds: float = 0.0

    def pass_time(self, demand: Demand, weight: float, most: float, debt: float, *, active: bool, holds: bool) -> None:
        """Brings it up to date with ``demand``; ``active`` and ``holds``: what the container did since it last was.

        The mean of the others' weight makes the share smaller than the mean of the shares would be, never larger.
        """
        elapsed = demand.at - self.at
        if elapsed > 0:
            others = (demand.weight_seconds - self.weight_seconds) / elapsed - (weight if active else 0.0)
            self.seconds += elapsed * weight / (weight + max(0.0, others))
            if holds:
                self.seconds -= demand.wanted_seconds - self.wanted_seconds
            self.seconds = max(-debt, min(most, self.seconds))
        self.at, self.weight_seconds, self.wanted_seconds = demand.at, demand.weight_seconds, demand.wanted_seconds

"""What a timeline shows, however it is drawn: a chart for each device, in it a row for each client. Pure.

Times are seconds on the timeline's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Shape(Enum):
    """How a bar is drawn."""

    FULL = "turn"
    """Something ran."""
    THIN = "swap"
    """Memory moved."""
    PALE = "wait"
    """It waited."""
    FAINT = "sleep"
    """It had nothing there at all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that took from ``begin`` to ``end``."""

    begin: float
    end: float
    shape: Shape
    text: str
    """What it was, with its figures."""


@dataclass(frozen=True, slots=True)
class Row:
    """One client's bars."""

    label: str
    color: int
    """Rows of one color belong together, whatever device they are on; any number."""
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Chart:
    """One device's rows."""

    title: str
    detail: str
    rows: Sequence[Row]


def tick_seconds(length: float, most: int) -> float:
    """The distance of at most ``most`` ticks on an axis of ``length`` seconds: 1, 2 or 5 times a power of ten."""
    step = 0.001
    for factor in (2, 2.5, 2) * 8:
        if length / step <= most:
            break
        step *= factor
    return step

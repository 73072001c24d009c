"""How people write a time on a command line."""

from __future__ import annotations

import math
from typing import Final

import typer

from nvshare.numbers import number_of

_SHORTEST_INTERVAL: Final = 0.1
_LONGEST_INTERVAL: Final = 3600.0
"""The longest that a scheduler takes."""
INTERVALS: Final = f"{_SHORTEST_INTERVAL:g} to {_LONGEST_INTERVAL:g} s"
"""Those that are allowed, for people."""
LONGEST_TIMELINE: Final = 86400.0
"""Of which a scheduler tells."""
SHORTEST_QUANTUM: Final = 0.01
LONGEST_QUANTUM: Final = 86400.0
"""Of those that a scheduler takes."""


def seconds(text: str | float) -> float:
    """A positive number of seconds, as an option's parser."""
    try:
        value = number_of(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise typer.BadParameter(f"{text!r} is no positive number of seconds, such as 30 or 2.5")
    return value


def look_back(text: str | float) -> float:
    """How far back a timeline goes, as an option's parser."""
    value = seconds(text)
    if value > LONGEST_TIMELINE:
        raise typer.BadParameter(f"{text} s is not allowed; up to {LONGEST_TIMELINE:g} s, a day, is")
    return value


def interval(text: str | float) -> float:
    """The time between two looks, as an option's parser."""
    return _between(_SHORTEST_INTERVAL, text, _LONGEST_INTERVAL)


def quantum(text: str | float) -> float:
    """How long a turn is while others wait, as an option's parser."""
    return _between(SHORTEST_QUANTUM, text, LONGEST_QUANTUM)


def _between(least: float, text: str | float, most: float) -> float:
    value = seconds(text)
    if not least <= value <= most:
        raise typer.BadParameter(f"{text} s is not allowed; from {least:g} to {most:g} s is")
    return value

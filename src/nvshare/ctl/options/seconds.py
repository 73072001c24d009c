"""How people write a time on a command line."""

from __future__ import annotations

import math
from typing import Final

import typer

_SHORTEST_INTERVAL: Final = 0.1
_LONGEST_INTERVAL: Final = 3600.0
"""The longest that a scheduler takes."""
LONGEST_TIMELINE: Final = 86400.0
"""Of which a scheduler tells."""


def seconds(text: str) -> float:
    """A positive number of seconds, as an option's parser."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise typer.BadParameter(f"{text!r} is no positive number of seconds, such as 30 or 2.5")
    return value


def look_back(text: str) -> float:
    """How far back a timeline goes, as an option's parser."""
    value = seconds(text)
    if value > LONGEST_TIMELINE:
        raise typer.BadParameter(f"{text} s is not allowed; up to {LONGEST_TIMELINE:g} s, a day, is")
    return value


def interval(text: str) -> float:
    """The time between two looks, as an option's parser."""
    value = seconds(text)
    if not _SHORTEST_INTERVAL <= value <= _LONGEST_INTERVAL:
        raise typer.BadParameter(f"{text} s is not allowed; from {_SHORTEST_INTERVAL:g} to {_LONGEST_INTERVAL:g} s is")
    return value

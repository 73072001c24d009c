"""What the demo is told of the scheduler's clients while its jobs run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """What the scheduler says of a client."""

    state: str
    resident_bytes: int
    """What of its memory is on the device."""
    moves: bool
    """Memory of it comes in or leaves."""


ClientStates = Callable[[], Mapping[int, Seen]]
"""Returns what the scheduler said of its clients, by pid, as far as it did since the last call.

Raises DemoError when the scheduler is gone."""

"""What the demo is told of the scheduler's clients while its programs run, and afterwards."""

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
    has_context: bool
    """Something of it is on the device, if only its context."""
    sleeps: int
    """How often it fell asleep."""


@dataclass(frozen=True, slots=True)
class Did:
    """What a client did for a while; times are of CLOCK_MONOTONIC."""

    what: str
    """waiting, holding, leaving, asleep, waking; out or in: its memory moved."""
    begin: float
    end: float


ClientStates = Callable[[], Mapping[int, Seen]]
"""Returns what the scheduler said of its clients, by pid, as far as it did since the last call.

Raises DemoError when the scheduler is gone."""

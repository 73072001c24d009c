"""What a container may have of its devices, and how much it matters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Priority(IntEnum):
    """Whose turn comes first: a waiter of a higher class does not wait for the quantum of a lower one."""

    LOW = 1
    NORMAL = 2
    HIGH = 3


@dataclass(frozen=True, slots=True)
class Terms:
    """What was set for a container; the defaults are those of one for which nothing was."""

    weight: float = 1.0
    """Its share of a device's time against those of others. Positive."""
    priority: Priority = Priority.NORMAL
    compute_limit: float | None = None
    """The most of a device's time that it gets, even if nobody else wants it. Above 0, up to 1."""
    memory_limit_bytes: int | None = None
    """What all its processes together may allocate on one device."""
    memory_request_bytes: int = 0
    """How much of its memory stays on a device while others use that."""

"""What a container may have of its devices, and how much it matters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Priority(IntEnum):
    """Whose turn comes first: a waiter of a higher class does not wait for the quantum of a lower one."""

    LOW = 1
    NORMAL = 2
    HIGH = 3


class WhenFull(StrEnum):
    """What becomes of memory asked for that only others' ends could free."""

    WAIT = "wait"
    """It waits for that."""
    REFUSE = "refuse"
    """It is refused, as a GPU refuses what it does not have."""


class SleepWhen(StrEnum):
    """When a process may leave its devices to the driver's checkpoint, which keeps nothing of it there."""

    NEVER = "never"
    PRESSURE = "pressure"
    """Where others lack memory that only its context has."""
    IDLE = "idle"
    """And when it has been idle for a while."""


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
    when_full: WhenFull = WhenFull.REFUSE
    sleep: SleepWhen | None = None
    """None: under pressure, and when idle where the operator chose after how long."""
    owner: str = ""
    """Whose programs say the weight: it counts only among theirs. Empty: an operator said it."""

    @property
    def kept_bytes(self) -> int:
        """How much of its memory is to stay on a device: its request, but no more than its limit."""
        limit_bytes = self.memory_limit_bytes
        return self.memory_request_bytes if limit_bytes is None else min(self.memory_request_bytes, limit_bytes)


UNSET = Terms()
"""Those of a container for which nothing was set."""

"""What a container may have of its devices, and how much it matters."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import Any, Final

LEAST_WEIGHT: Final = 0.01
MOST_WEIGHT: Final = 1000.0
LEAST_SHARE: Final = 0.001
MOST_BYTES: Final = 1 << 50
"""No memory is larger."""


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


@dataclass(frozen=True, slots=True)
class SomeTerms:
    """Those of the terms that somebody said; None: not said."""

    weight: float | None = None
    priority: Priority | None = None
    compute_limit: float | None = None
    memory_limit_bytes: int | None = None
    memory_request_bytes: int | None = None
    when_full: WhenFull | None = None
    sleep: SleepWhen | None = None

    def over(self, others: SomeTerms) -> SomeTerms:
        """These, and those of the others that are not said here."""
        return SomeTerms(**(others.said() | self.said()))

    def without(self, names: frozenset[str]) -> SomeTerms:
        """These but for some, by the fields' names."""
        return SomeTerms(**{name: value for name, value in self.said().items() if name not in names})

    def said(self) -> dict[str, Any]:
        """What was said, by the fields' names."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}

    def contradicts(self, others: SomeTerms) -> bool:
        """Whether both say something of the same, and not the same."""
        theirs = others.said()
        return any(theirs.get(name, value) != value for name, value in self.said().items())

    def terms(self, owner: str = "") -> Terms:
        """With the defaults for what was not said; ``owner``: see ``Terms``."""
        return Terms(**self.said(), owner=owner)

    def check(self) -> None:
        """ValueError, with what is allowed, unless all that was said is."""
        weight, share = self.weight, self.compute_limit
        if weight is not None and not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            raise ValueError(f"weight {weight:g} is not allowed; from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g} is")
        if share is not None and not LEAST_SHARE <= share <= 1:
            raise ValueError(f"a compute limit of {share:.1%} is not allowed; from {LEAST_SHARE:.1%} to 100% is")
        for size in (self.memory_limit_bytes, self.memory_request_bytes):
            if size is not None and not 0 < size <= MOST_BYTES:
                raise ValueError(f"{size} bytes are not allowed; from 1 to {MOST_BYTES} are")

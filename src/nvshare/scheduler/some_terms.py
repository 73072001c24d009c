"""What somebody said of a container's terms: the operator, a claim, annotations, or its programs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from nvshare.scheduler.core.terms import Priority, SleepWhen, Terms, WhenFull

LEAST_WEIGHT: Final = 0.01
MOST_WEIGHT: Final = 1000.0
LEAST_SHARE: Final = 0.001
MOST_BYTES: Final = 1 << 50
"""No memory is larger."""


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

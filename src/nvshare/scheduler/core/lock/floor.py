"""What lower priority classes are owed while a higher one wants a device all the time.

Each class but the lowest owes the classes below it a share of the time in which one of it holds and one of them waits.
When that is a whole slice, the first of them has a turn of that length before the higher class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nvshare.scheduler.core.terms import Priority

NEARLY: Final = 1e-9
"""Sums of times are not exact."""


class Floor:
    """The floor of one device."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._owed = dict.fromkeys(Priority, 0.0)
        """By class: what it owes those below it, in seconds."""
        self._growing: Sequence[Priority] = ()
        self._at = 0.0

    def pass_time(self, now: float, growing: Sequence[Priority], most: float) -> None:
        """Brings it up to date. From now on these classes owe more and more, up to ``most`` each."""
        for priority in self._growing:
            owed = self._owed[priority]
            self._owed[priority] = max(owed, min(most, owed + (now - self._at) * self._share))
        self._at, self._growing = now, growing

    def is_due(self, priority: Priority, seconds: float) -> bool:
        """Whether a class owes a slice of this length."""
        return self._share > 0 and self._owed[priority] >= seconds - NEARLY

    def due_at(self, priority: Priority, seconds: float) -> float:
        """When a class will owe a slice of this length if things stay as they are; infinite: never."""
        if priority not in self._growing or not self._share:
            return float("inf")
        return self._at + (seconds - self._owed[priority]) / self._share

    def pay(self, priority: Priority, seconds: float) -> None:
        """A slice began of a client of this class; negative: so much of it was not used."""
        for each in Priority:
            if each > priority:
                self._owed[each] = max(-abs(seconds), self._owed[each] - seconds)

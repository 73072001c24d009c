"""What lower priority classes are owed while a higher one wants a device all the time.

Each class but the lowest owes the classes below it a share of the time in which one of it holds and one of them waits,
or has a slice. So it does while nobody holds and both wait, since the device gets ready for the higher class. When that
is a whole slice, the first of them has a turn of that length before the higher class. A class that waited when a lower
one had a slice has the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from nvshare.scheduler.core.terms import Priority

SLICE_SECONDS: Final = 1.0
"""How long slices are, where a quantum is not shorter, and the hand-over is worth it."""
NEARLY: Final = 1e-9
"""Sums of times are not exact."""


class Floor:
    """The floor of one device."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._owed = dict.fromkeys(Priority, 0.0)
        """By class: what it owes those below it, in seconds."""
        self._growing: Collection[Priority] = ()
        self._waiting: Collection[Priority] = ()
        self._passed: Collection[Priority] = ()
        """Those that waited when one below them had the last slice."""
        self._most = SLICE_SECONDS
        """No class owes more for the time that passes."""
        self._at = 0.0

    def pass_time(
        self, now: float, waiting: Mapping[Priority, float], holding: Collection[Priority], slices: Collection[Priority]
    ) -> None:
        """Brings it up to date. From now on these classes wait, those hold, and some of them have slices.

        ``waiting``: how long a slice of each is.
        """
        for priority in self._growing:
            owed = self._owed[priority]
            self._owed[priority] = max(owed, min(self._most, owed + (now - self._at) * self._share))
        waits, has_slice = min(waiting, default=Priority.HIGH), min(slices, default=Priority.HIGH)
        self._growing = [
            priority
            for priority in Priority
            if (priority > has_slice and (priority in waiting or priority in holding))
            or (priority > waits and (priority in holding or (priority in waiting and not holding)))
        ]
        self._waiting = waiting.keys()
        self._most = max(waiting.values(), default=SLICE_SECONDS)
        self._at = now

    def next(self, waiting: Mapping[Priority, float], highest: Priority) -> tuple[Priority, float] | None:
        """The class that has the next slice, and when that is due if things stay as they are; None: no class has one.

        ``highest``: the highest class that wants the device.
        """
        lower = sorted((priority for priority in waiting if priority < highest), reverse=True)
        while len(lower) > 1 and lower[0] not in self._passed and self._due_at(lower[0], waiting[lower[1]]) <= self._at:
            del lower[0]
        return (lower[0], self._due_at(highest, waiting[lower[0]])) if lower else None

    def pay(self, priority: Priority, seconds: float) -> None:
        """A client of this class was given a slice; negative: so much of it was not used."""
        above = [each for each in Priority if each > priority]
        if seconds > 0:
            self._passed = [each for each in above if each in self._waiting]
        for each in above:
            self._owed[each] = max(-abs(seconds), self._owed[each] - seconds)

    def _due_at(self, priority: Priority, seconds: float) -> float:
        """When a class will owe a slice of this length; infinite: never."""
        if self._share and self._owed[priority] >= seconds - NEARLY:
            return self._at
        if priority not in self._growing or not self._share:
            return float("inf")
        return self._at + (seconds - self._owed[priority]) / self._share

"""Deadlines of one constant length for very many peers: one timer and one dictionary for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_BATCH = 32
"""How many expire at most in one pass of the event loop, so that very many at once delay nobody else."""


class Deadlines(Generic[Key]):
    """Calls ``expired`` with every key that was begun and not ended within ``seconds``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expired: Callable[[Key], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._expired = expired
        self._deadlines: dict[Key, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, key: Key) -> None:
        """Starts the time of a key, anew if it ran already."""
        self._deadlines.pop(key, None)
        self._deadlines[key] = self._loop.time() + self._seconds
        self._arm()

    def end(self, key: Key) -> None:
        """Stops the time of a key; nothing happens if it did not run."""
        self._deadlines.pop(key, None)

    def stop(self) -> None:
        """Stops the time of every key."""
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is None and self._deadlines:
            # Insertion order is the order of the deadlines, because all have the same length.
            self._timer = self._loop.call_at(next(iter(self._deadlines.values())), self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        due: list[Key] = []
        for key, deadline in self._deadlines.items():
            if deadline > now or len(due) == _BATCH:
                break
            due.append(key)
        for key in due:
            del self._deadlines[key]
            self._expired(key)
        self._arm()

"""Deadlines of one constant length for very many peers: one timer and one dictionary for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable

Waited = TypeVar("Waited", bound="Hashable")

_BATCH = 32
"""So many expire in one pass of the event loop, so that a flood of them delays nobody else."""


class Patience(Generic[Waited]):
    """Calls ``expired`` with everyone that was begun and not ended within ``seconds``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expired: Callable[[Waited], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._expired = expired
        self._deadlines: dict[Waited, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, who: Waited) -> None:
        """Starts the time of ``who``, anew if it ran already."""
        self._deadlines.pop(who, None)
        self._deadlines[who] = self._loop.time() + self._seconds
        self._arm()

    def end(self, who: Waited) -> None:
        """``who`` did what it had to; nothing happens if its time did not run."""
        self._deadlines.pop(who, None)

    def stop(self) -> None:
        """Forgets everyone."""
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
        due: list[Waited] = []
        for who, deadline in self._deadlines.items():
            if deadline > now or len(due) == _BATCH:
                break
            due.append(who)
        for who in due:
            del self._deadlines[who]
            self._expired(who)
        self._arm()

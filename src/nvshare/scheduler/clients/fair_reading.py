"""Divides each pass of the event loop equally among the processes that send.

Everybody else waits while a message is worked on, and messages differ: a join or a growth may take a hundred times as
long as a footprint. So the time is shared, not the number of messages. A process that sends without end gets as much of
a pass as any other, over however many connections. What it sends beyond that waits for the next pass, in which its
connections take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final, Protocol

SECONDS_OF_A_PROCESS: Final = 0.0005
"""After so much work in one pass nothing more is done for a process: some ten messages that change little."""
SECONDS: Final = 0.005
"""After so much work in one pass nothing more is done for anybody."""


class Source(Protocol):
    """A connection from which messages can be read."""

    def read(self, may_go_on: Callable[[], bool]) -> bool:
        """Works on what one read brings, or what the last one left, for as long as it may: on one message at least.

        Whether something is left, which is not read again before.
        """

    def pause(self) -> None:
        """Says no more that there is something to read."""

    def resume(self) -> None:
        """Says it again, unless the connection has ended meanwhile."""


class FairReading:
    """Reads from all connections of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``monotonic``: seconds that never go back, and go on while a message is worked on."""
        self._loop = loop
        self._monotonic = monotonic
        self._spent: defaultdict[int, float] = defaultdict(float)
        """Seconds of this pass by pid."""
        self._total = 0.0
        self._waiting: dict[int, deque[Source]] = {}
        """By pid; whose turn is next comes first. They are paused."""
        self._counts = False

    def readable(self, pid: int, source: Source) -> None:
        """There is something to read from a connection of this process: reads it now or in a later pass."""
        if not self._may_read(pid) or self._read_once(pid, source):
            source.pause()
            self._waiting.setdefault(pid, deque()).append(source)
        if not self._counts:
            self._counts = True
            self._loop.call_soon(self._next_pass)

    def unread(self) -> bool:
        """Whether there is something to read in a later pass that the event loop does not tell of."""
        return bool(self._waiting)

    def _next_pass(self) -> None:
        """Runs in every pass before the event loop tells of what became readable."""
        self._spent.clear()
        self._total = 0.0
        self._counts = bool(self._waiting)
        if self._counts:
            self._loop.call_soon(self._next_pass)
        for pid in tuple(self._waiting):
            if self._total >= SECONDS:
                return
            sources = self._waiting.pop(pid)
            while sources and self._may_read(pid):
                source = sources.popleft()
                if self._read_once(pid, source):
                    sources.append(source)
                else:
                    source.resume()
            if sources:
                # Behind those that this pass does not come to.
                self._waiting[pid] = sources

    def _may_read(self, pid: int) -> bool:
        return self._left(pid) > 0

    def _left(self, pid: int) -> float:
        return min(SECONDS_OF_A_PROCESS - self._spent[pid], SECONDS - self._total)

    def _read_once(self, pid: int, source: Source) -> bool:
        began = self._monotonic()
        until = began + self._left(pid)
        has_more = source.read(lambda: self._monotonic() < until)
        took = self._monotonic() - began
        self._spent[pid] += took
        self._total += took
        return has_more

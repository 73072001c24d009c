"""How much of what each process sends is read in one pass of the event loop.

Everybody else waits while a message is worked on. So a process that sends without end, over however many connections,
gets as much of a pass as any other; what it sends beyond that waits for the next pass, its connections in turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Protocol

MESSAGES_OF_A_PROCESS = 16
"""After so many in one pass nothing more is read of a process; one read may bring as many again."""
MESSAGES = 128
"""After so many in one pass nothing more is read of anybody: some milliseconds of work."""


class Source(Protocol):
    """A connection from which messages can be read."""

    def read(self) -> int:
        """Works on what one read brings; the answer is how much work that was, in messages."""

    def pause(self) -> None:
        """Says no more that there is something to read."""

    def resume(self) -> bool:
        """Says it again. False if the connection has ended meanwhile."""


class FairReading:
    """Reads from all connections of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._read: Counter[int] = Counter()
        """Messages of this pass by pid."""
        self._total = 0
        self._waiting: dict[int, deque[Source]] = {}
        """By pid; whose turn is next comes first."""
        self._counts = False

    def readable(self, pid: int, source: Source) -> None:
        """There is something to read from a connection of this process: reads it now or in a later pass."""
        if self._may_read(pid):
            self._read_once(pid, source)
        else:
            source.pause()
            self._waiting.setdefault(pid, deque()).append(source)
        if not self._counts:
            self._counts = True
            self._loop.call_soon(self._next_pass)

    def _next_pass(self) -> None:
        """Runs in every pass before the event loop tells of what became readable."""
        self._read.clear()
        self._total = 0
        self._counts = bool(self._waiting)
        if self._counts:
            self._loop.call_soon(self._next_pass)
        for pid in tuple(self._waiting):
            if self._total >= MESSAGES:
                return
            sources = self._waiting.pop(pid)
            while sources and self._may_read(pid):
                source = sources.popleft()
                if source.resume():
                    self._read_once(pid, source)
            if sources:
                # Behind those that this pass does not come to.
                self._waiting[pid] = sources

    def _may_read(self, pid: int) -> bool:
        return self._total < MESSAGES and self._read[pid] < MESSAGES_OF_A_PROCESS

    def _read_once(self, pid: int, source: Source) -> None:
        messages = source.read()
        self._read[pid] += messages
        self._total += messages

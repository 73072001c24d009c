"""How long each process is worked for in one pass of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from nvshare.scheduler.clients.fair_reading import SECONDS, SECONDS_OF_A_PROCESS, FairReading
from tests.polling import until

OF_ONE_READ = 17
FLOODER, OTHER = 1, 2
CHEAP, DEAR = SECONDS_OF_A_PROCESS / 20, 8 * SECONDS_OF_A_PROCESS
"""Seconds for a message."""


class Passes:
    """What is worked on, by the pass of the event loop in which it is. Nothing but that takes time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reading = FairReading(asyncio.get_running_loop(), lambda: self.now)
        self.read: deque[list[FakeSource]] = deque([[]])
        """In each pass, whose messages."""
        self.all: list[FakeSource] = []

    def come(self, pid: int, messages: int, seconds: float = CHEAP) -> FakeSource:
        """One more connection, which brings so many."""
        self.all.append(FakeSource(self, pid, messages, seconds))
        return self.all[-1]

    async def over(self) -> None:
        """Passes until nobody has anything left. A selector tells again of what was not read."""
        loop = asyncio.get_running_loop()
        while any(source.left for source in self.all):
            readable = [source for source in self.all if source.unread and not source.paused]
            for source in readable:
                loop.call_soon(self.reading.readable, source.pid, source)
            await asyncio.sleep(0)
            self.read.append([])

    def seconds_of(self, pid: int) -> list[float]:
        """How long each pass worked for a process."""
        return [sum(source.seconds for source in read if source.pid == pid) for read in self.read]


class FakeSource:
    """A connection."""

    def __init__(self, passes: Passes, pid: int, messages: int, seconds: float) -> None:
        self.pid, self.seconds, self.unread, self.here = pid, seconds, messages, 0
        self.paused, self.ended = False, False
        self._passes = passes

    @property
    def left(self) -> int:
        return self.unread + self.here

    def read(self, may_go_on: Callable[[], bool]) -> bool:
        if self.ended:
            return False
        if not self.here:
            self.here = min(OF_ONE_READ, self.unread)
            self.unread -= self.here
        worked = 0
        while self.here and (not worked or may_go_on()):
            worked, self.here = worked + 1, self.here - 1
            self._passes.now += self.seconds
            self._passes.read[-1].append(self)
        return self.here > 0

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


async def test_a_flood_of_one_process() -> None:
    """500 connections of one process take no more of a pass than one would, and all have their turn before a second."""
    passes = Passes()
    flood = [passes.come(FLOODER, 3 * OF_ONE_READ) for _ in range(500)]
    other = passes.come(OTHER, 1)
    await passes.over()
    assert other in passes.read[0] + passes.read[1]
    assert SECONDS_OF_A_PROCESS - CHEAP < max(passes.seconds_of(FLOODER)) < SECONDS_OF_A_PROCESS + 2 * CHEAP
    in_order = [source for read in passes.read for source in read if source.pid == FLOODER]
    most_before_all = 3 * 500 * OF_ONE_READ
    first_of_each = [in_order.index(source) for source in flood]
    assert max(first_of_each) <= most_before_all * 0.4, "some come a second time before others come at all"


async def test_messages_that_are_dear() -> None:
    """One of them is a pass's work for its process, though one read brings many; whoever else sends goes on."""
    passes = Passes()
    flood = [passes.come(FLOODER, 2 * OF_ONE_READ, DEAR) for _ in range(3)]
    other = passes.come(OTHER, 20)
    await passes.over()
    assert max(Counter(source.pid for source in read)[FLOODER] for read in passes.read) == 1
    assert other not in [source for read in list(passes.read)[3:] for source in read]
    in_order = [source for read in passes.read for source in read if source.pid == FLOODER]
    assert Counter(in_order) == dict.fromkeys(flood, 2 * OF_ONE_READ)
    assert in_order[1:7] == flood * 2, "its connections have their turns"


async def test_a_flood_of_many_processes() -> None:
    """A pass has an end whoever sends, and nobody is left out."""
    passes = Passes()
    for pid in range(100):
        passes.come(pid, 5 * OF_ONE_READ)
    await passes.over()
    assert max(sum(source.seconds for source in read) for read in passes.read) < SECONDS + 2 * CHEAP
    first = [min(at for at, read in enumerate(passes.read) if source in read) for source in passes.all]
    assert max(first) <= 100 * SECONDS_OF_A_PROCESS / SECONDS + 2


async def test_one_that_ended_while_it_waited() -> None:
    """Nothing is read of it, and those behind it come."""
    passes = Passes()
    first, ended, last = (passes.come(FLOODER, 1, DEAR) for _ in range(3))
    for source in (first, ended, last):
        passes.reading.readable(FLOODER, source)
    ended.ended = True
    await until(lambda: not last.left, "the last one is read")
    assert (first.left, ended.left) == (0, 1)

"""How much of each process is read in one pass of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque

from nvshare.scheduler.clients.fair_reading import MESSAGES, MESSAGES_OF_A_PROCESS, FairReading
from tests.polling import until

OF_ONE_READ = 17
FLOODER, OTHER = 1, 2


class Passes:
    """What is read, by the pass of the event loop in which it is."""

    def __init__(self) -> None:
        self.reading = FairReading(asyncio.get_running_loop())
        self.read: deque[list[FakeSource]] = deque([[]])
        self.all: list[FakeSource] = []

    def come(self, pid: int, reads: int) -> FakeSource:
        """One more connection, which brings so much."""
        self.all.append(FakeSource(self, pid, reads))
        return self.all[-1]

    async def over(self) -> None:
        """Passes until nobody has anything left. A selector tells again of what was not read."""
        loop = asyncio.get_running_loop()
        while any(source.left for source in self.all):
            readable = [source for source in self.all if source.left and not source.paused]
            for source in readable:
                loop.call_soon(self.reading.readable, source.pid, source)
            await asyncio.sleep(0)
            self.read.append([])


class FakeSource:
    """A connection."""

    def __init__(self, passes: Passes, pid: int, reads: int) -> None:
        self.pid, self.left, self.paused, self.ended = pid, reads, False, False
        self._passes = passes

    def read(self) -> int:
        self.left -= 1
        self._passes.read[-1].append(self)
        return OF_ONE_READ

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> bool:
        self.paused = False
        return not self.ended


async def test_a_flood_of_one_process() -> None:
    """500 connections of one process take no more of a pass than one would, and all have their turn before a second."""
    passes = Passes()
    flood = [passes.come(FLOODER, 3) for _ in range(500)]
    other = passes.come(OTHER, 1)
    await passes.over()
    assert other in passes.read[0] + passes.read[1]
    assert max(sum(OF_ONE_READ for source in read if source.pid == FLOODER) for read in passes.read) < (
        MESSAGES_OF_A_PROCESS + OF_ONE_READ
    )
    in_order = [source for read in passes.read for source in read if source.pid == FLOODER]
    assert sorted(map(id, in_order[:500])) == sorted(map(id, flood))


async def test_a_flood_of_many_processes() -> None:
    """A pass has an end whoever sends, and nobody is left out."""
    passes = Passes()
    for pid in range(100):
        passes.come(pid, 5)
    await passes.over()
    assert max(len(read) for read in passes.read) * OF_ONE_READ < MESSAGES + OF_ONE_READ
    in_order = [source.pid for read in passes.read for source in read]
    assert sorted(in_order[:100]) == list(range(100))


async def test_one_that_ended_while_it_waited() -> None:
    """Nothing is read of it, and those behind it come."""
    passes = Passes()
    first, ended, last = (passes.come(FLOODER, 1) for _ in range(3))
    for source in (first, ended, last):
        passes.reading.readable(FLOODER, source)
    ended.ended = True
    await until(lambda: not last.left, "the last one is read")
    assert (first.left, ended.left) == (0, 1)

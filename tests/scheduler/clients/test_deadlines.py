"""Deadlines of one length for many."""

from __future__ import annotations

import asyncio

from nvshare.scheduler.clients.deadlines import Deadlines

MANY = 200


async def test_everyone_expires_in_order() -> None:
    """Who began and did not end expires, in the order of beginning, many more than one pass takes; others do not."""
    loop = asyncio.get_running_loop()
    expired: list[int] = []
    done = asyncio.Event()

    def expire(number: int) -> None:
        expired.append(number)
        if number == MANY - 1:
            done.set()

    deadlines = Deadlines[int](loop, 0.05, expire)
    began = loop.time()
    for number in range(MANY):
        deadlines.begin(number)
    for number in range(0, MANY, 2):
        deadlines.end(number)
    deadlines.end(-1)
    await asyncio.wait_for(done.wait(), 10)
    assert loop.time() - began >= 0.05
    assert expired == list(range(1, MANY, 2))


async def test_time_starts_anew() -> None:
    """Who begins again has all the time again, and comes after those who began before."""
    expired: asyncio.Queue[str] = asyncio.Queue()
    deadlines = Deadlines[str](asyncio.get_running_loop(), 0.05, expired.put_nowait)
    deadlines.begin("first")
    deadlines.begin("second")
    deadlines.begin("first")
    assert [await expired.get(), await expired.get()] == ["second", "first"]
    assert expired.empty()


async def test_stop_forgets() -> None:
    """After stop nobody expires."""
    loop = asyncio.get_running_loop()
    expired: list[str] = []
    deadlines = Deadlines[str](loop, 0.01, expired.append)
    deadlines.begin("one")
    deadlines.stop()
    later: asyncio.Future[None] = loop.create_future()
    loop.call_later(0.05, later.set_result, None)
    await later
    assert not expired

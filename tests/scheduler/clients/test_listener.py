"""How many connections are accepted in one pass of the event loop."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import structlog

from nvshare.scheduler.clients.listener import Listener

WAITING = 30
COST_SECONDS = 0.0005


async def test_for_a_moment_and_all_of_them_in_the_end(tmp_path: Path) -> None:
    """Those that cost little are accepted at once, by the dozen; else the others are heard in between."""
    path = str(tmp_path / "socket")
    passes: list[int] = []
    now = cost_seconds = 0.0

    def accepted(connection: socket.socket) -> None:
        nonlocal now
        connection.close()
        now += cost_seconds
        passes[-1] += 1

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(2 * WAITING)
        listening.setblocking(False)
        loop = asyncio.get_running_loop()
        listener = Listener(listening, loop, lambda: True, accepted, structlog.get_logger(), lambda: now)
        for seconds, most in ((0.0, WAITING), (COST_SECONDS, 4)):
            cost_seconds, passes[:] = seconds, [0]
            clients = [socket.socket(socket.AF_UNIX) for _ in range(WAITING)]
            for client in clients:
                client.connect(path)
            while sum(passes) < WAITING:
                await asyncio.sleep(0)
                passes.append(0)
            assert max(passes) == most
            for client in clients:
                client.close()
        listener.close()

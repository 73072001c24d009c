"""How many connections are accepted in one pass of the event loop, and what happens when none can be."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from nvshare.scheduler.clients import listener as listener_module
from nvshare.scheduler.clients.listener import Listener
from tests.polling import until

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


class Full:
    """A listening socket whose process has too many open files."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.is_full = True

    def fileno(self) -> int:
        return self._listening.fileno()

    def close(self) -> None:
        self._listening.close()

    def accept(self) -> tuple[socket.socket, object]:
        if self.is_full:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._listening.accept()


async def test_a_pause_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it pauses until all who wait were accepted; and once more when it happens again."""
    monkeypatch.setattr(listener_module, "_PAUSE_SECONDS", 0.001)
    lines, connections = CapturingLogger(), list[socket.socket]()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        listening.setblocking(False)
        full = Full(listening)
        loop = asyncio.get_running_loop()
        listener = Listener(full, loop, lambda: True, connections.append, lines)  # type: ignore[arg-type]
        for time in (1, 2):
            full.is_full, pauses = True, listener.pauses
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(tmp_path / "socket"))
                await until(lambda before=pauses: listener.pauses > before + 5, "it pauses again and again")
                full.is_full = False
                await until(lambda: connections, "it is accepted")
            connections.pop().close()
            assert [call.kwargs["reason"] for call in lines.calls] == time * ["Too many open files"]
        listener.close()


async def test_without_room_to_be_told_of_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has a limit for what is looked at: the listener tries again."""
    monkeypatch.setattr(listener_module, "_PAUSE_SECONDS", 0.001)
    loop, connections = asyncio.get_running_loop(), list[socket.socket]()
    add_reader = loop.add_reader

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        listening.setblocking(False)
        monkeypatch.setattr(loop, "add_reader", full)
        listener = Listener(listening, loop, lambda: True, connections.append, CapturingLogger())
        await until(lambda: listener.pauses > 1, "it tries again")
        monkeypatch.setattr(loop, "add_reader", add_reader)
        client.connect(str(tmp_path / "socket"))
        await until(lambda: connections, "it is accepted")
        connections.pop().close()
        listener.close()

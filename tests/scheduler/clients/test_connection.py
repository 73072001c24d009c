"""What one connection brings: cut into messages, of which as many are worked on as its process may have."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest
import structlog

from nvshare.protocol import wire
from nvshare.scheduler.clients.connection import Connection
from nvshare.scheduler.clients.deadlines import Deadlines
from nvshare.scheduler.clients.fair_reading import SECONDS_OF_A_PROCESS, FairReading
from nvshare.scheduler.clients.faults import Fault
from nvshare.scheduler.pods.peer import Peer
from tests.polling import until

HALF_FRAME_SECONDS = 0.5


def message(number: int) -> bytes:
    return bytes([wire.MAGIC, number]).ljust(wire.FRAME_BYTES, b"\0")


class Peers:
    """One connection, its session and its owner. Each message takes a process's part of a pass."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self.theirs = theirs
        self.now = 0.0
        self.passes = 0
        self.heard: list[tuple[int, int]] = []
        """Each message's number, and the pass in which it was worked on."""
        self.ended: Fault | None = None
        self.is_closed = False
        self.half_frames = Deadlines[Connection](
            loop, HALF_FRAME_SECONDS, lambda late: late.drop("half", Fault.HALF_FRAME)
        )
        ours.setblocking(False)
        peer = Peer(os.getpid(), os.getuid(), os.getgid())
        reading = FairReading(loop, lambda: self.now)
        sessions = {wire.VERSION: lambda _connection: self}
        log = structlog.get_logger()
        self.connection = Connection(ours, peer, loop, sessions, self, self.half_frames, reading, log)
        self._loop = loop
        self._count()

    def _count(self) -> None:
        self.passes += 1
        self._loop.call_soon(self._count)

    def receive(self, message: bytes) -> None:
        self.heard.append((message[1], self.passes))
        self.now += SECONDS_OF_A_PROCESS

    def closed(self) -> None:
        self.is_closed = True

    def dropped(self, fault: Fault) -> None:
        self.ended = fault

    def forget(self, connection: Connection) -> None:
        assert connection is self.connection


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    ours, theirs = socket.socketpair()
    with theirs:
        made = Peers(ours, theirs)
        yield made
        made.connection.abandon()
        made.half_frames.stop()


async def test_one_message_a_pass(peers: Peers) -> None:
    """Where each takes a whole part all come in their order, each in a later pass, and then the end."""
    peers.theirs.send(b"".join(map(message, range(10))))
    peers.theirs.close()
    await until(lambda: peers.is_closed, "the end is read")
    assert [number for number, _ in peers.heard] == list(range(10))
    passes = [at for _, at in peers.heard]
    assert sorted(set(passes)) == passes
    assert peers.ended is None


async def test_half_a_message_behind_others(peers: Peers) -> None:
    """Its time runs only when those before it are worked on, and ends with it."""
    peers.theirs.send(message(0) + message(1) + message(2)[:100])
    await until(lambda: len(peers.heard) == 2, "the whole ones are heard")
    peers.theirs.send(message(2)[100:] + message(3))
    await until(lambda: len(peers.heard) == 4, "the others are heard")
    time, since = asyncio.get_running_loop().time, asyncio.get_running_loop().time()
    await until(lambda: time() > since + 1.2 * HALF_FRAME_SECONDS, "its time would be over")
    assert peers.ended is None
    peers.theirs.send(message(4)[:100])
    await until(lambda: peers.ended is Fault.HALF_FRAME, "half a message that stays half ends the connection")


async def test_its_end_while_messages_wait(peers: Peers) -> None:
    """Nothing of it is worked on after it was ended."""
    peers.theirs.send(message(0) * 5)
    await until(lambda: bool(peers.heard), "the first is heard")
    heard = len(peers.heard)
    peers.connection.close()
    passes = peers.passes
    await until(lambda: peers.passes > passes + 10, "more passes")
    assert len(peers.heard) == heard

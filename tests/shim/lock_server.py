"""A scheduler that grants and revokes only what a test tells it to."""

from __future__ import annotations

import os
import queue
import select
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from nvshare.protocol import whole_texts, wire

TIMEOUT = 20.0
"""Seconds after which something that must happen counts as not happening."""

FrameT = TypeVar("FrameT", bound=wire.Frame)


@dataclass(slots=True)
class Peer:
    """One connected client, with what it said at first."""

    connection: socket.socket
    register: wire.Register
    grants: int = 0
    terms: wire.Terms | None = None
    early: list[wire.Frame] = field(default_factory=list)
    """What came before the terms, and is not looked at yet."""
    """What its environment asks for, once that was read."""

    def send(self, frame: wire.SchedulerFrame) -> None:
        """Sends one frame."""
        self.connection.sendall(whole_texts.encode(frame, wire.LEVEL))

    def receive(self) -> wire.Frame:
        """The next frame but for terms; TimeoutError when none comes, ConnectionError when the client hangs up."""
        while isinstance(frame := self.early.pop(0) if self.early else self._read(), wire.Terms):
            self.terms = frame
        return frame

    def expect_terms(self) -> wire.Terms:
        """What the client's environment asks for; before it comes with whom it is tied, which is kept for later."""
        while not isinstance(frame := self._read(), wire.Terms):
            assert isinstance(frame, wire.Join), frame
            self.early.append(frame)
        self.terms = frame
        return frame

    def _read(self) -> wire.Frame:
        data = b""
        while len(data) < wire.FRAME_BYTES:
            part = self.connection.recv(wire.FRAME_BYTES - len(data))
            if not part:
                raise ConnectionError("the client hung up")
            data += part
        return wire.decode(data)

    def expect(self, kind: type[FrameT]) -> FrameT:
        """The next frame other than a footprint, which must be of that kind."""
        frame = self.receive()
        while isinstance(frame, wire.Footprint):
            frame = self.receive()
        assert isinstance(frame, kind), frame
        return frame

    def expect_wanting(self) -> None:
        """Waits until the client has asked for the lock, be it as it registered."""
        if self.register.state is not wire.State.WAITING:
            self.expect(wire.ReqLock)

    def grant(self) -> None:
        """Gives the lock to a client that has asked for it."""
        self.grants += 1
        self.send(wire.LockOk(self.grants))

    def revoke(self) -> None:
        """Asks for the lock back."""
        self.send(wire.DropLock(self.grants))

    def take_back(self) -> None:
        """Asks for the lock back and waits until the client gives it."""
        self.revoke()
        assert self.expect(wire.LockReleased).grant == self.grants


def readable(peer: Peer, seconds: float = 0) -> bool:
    """Whether the client says something, or ends the connection, within that time."""
    return bool(select.select([peer.connection], [], [], seconds)[0])


@dataclass(slots=True)
class LockServer:
    """Listens where ``NVSHARE_RUN_DIR`` says, or at ``path``.

    Clients are registered in a thread of its own: the one that uses the GPU waits for that, and may be the test's.
    """

    path: Path = field(default_factory=lambda: Path(os.environ["NVSHARE_RUN_DIR"]) / "client" / "scheduler.sock")
    listener: socket.socket = field(init=False)
    _peers: queue.Queue[Peer | Exception] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def accept(self) -> Peer:
        """The next client, registered."""
        peer = self._peers.get(timeout=TIMEOUT)
        if isinstance(peer, Exception):
            raise peer
        return peer

    def _serve(self) -> None:
        while True:
            connection = self.listener.accept()[0]
            connection.settimeout(TIMEOUT)
            try:
                self._peers.put(_registered(connection))
            except (OSError, AssertionError) as error:
                self._peers.put(error)


def _registered(connection: socket.socket) -> Peer:
    peer = Peer(connection, wire.Register(bytes(wire.UUID_BYTES), 0))
    peer.register = peer.expect(wire.Register)
    peer.send(wire.SchedOn(client_id=1, epoch=1))
    peer.send(wire.Limit(peer.expect_terms().memory_limit_bytes))
    return peer

"""A scheduler that a test plays frame by frame: it answers only what the test tells it to."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import wire
from tests.shim.controlled_program import ControlledProgram
from tests.shim.lock_server import TIMEOUT, Peer, readable


@dataclass(slots=True)
class FakeScheduler:
    """Listens at a path, and does nothing by itself."""

    path: Path
    listener: socket.socket = field(init=False)
    peers: list[Peer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.listen()

    def __enter__(self) -> FakeScheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def listen(self) -> None:
        """Begins to listen, as a scheduler that was started."""
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.listener.settimeout(TIMEOUT)

    def accept(self) -> Peer:
        """The next client, which has said who it is and was not answered."""
        connection = self.listener.accept()[0]
        connection.settimeout(TIMEOUT)
        peer = Peer(connection, wire.Register(bytes(wire.UUID_BYTES), 0))
        self.peers.append(peer)
        peer.register = peer.expect(wire.Register)
        return peer

    def register(self, epoch: int = 1) -> Peer:
        """The next client, registered."""
        peer = self.accept()
        peer.send(wire.SchedOn(client_id=1, epoch=epoch))
        peer.send(wire.Limit(peer.expect_terms().memory_limit_bytes))
        return peer

    def serve(self, program: ControlledProgram, command: str = "use") -> Peer:
        """Registers a program that makes its first context, which waits to hear of its container's limit."""
        program.begin(command)
        peer = self.register()
        assert program.answer() == "0"
        return peer

    def die(self) -> None:
        """Ends as a killed scheduler does: its file stays, its connections end."""
        self.listener.close()
        for peer in self.peers:
            peer.connection.close()
        self.peers.clear()


def hung_up(peer: Peer) -> bool:
    """Whether the client has ended the connection, or does before the timeout."""
    with contextlib.suppress(ConnectionError):
        while True:
            peer.receive()
    return True


def silent(peer: Peer, seconds: float) -> bool:
    """The client says nothing for that long."""
    return not readable(peer, seconds)

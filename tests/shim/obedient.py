"""A program under the library that a test drives, and the scheduler that it talks to, played by the test."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.children import PROGRAMS
from tests.shim.lock_server import PATIENCE, Peer


@dataclass(slots=True)
class PlayedScheduler:
    """Listens at a path, and does nothing by itself."""

    path: Path
    listener: socket.socket = field(init=False)
    peers: list[Peer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.listen()

    def __enter__(self) -> PlayedScheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def listen(self) -> None:
        """Begins to listen, as a scheduler that was started."""
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.listener.settimeout(PATIENCE)

    def accept(self) -> Peer:
        """The next client, which has said who it is and was not answered."""
        connection = self.listener.accept()[0]
        connection.settimeout(PATIENCE)
        peer = Peer(connection, wire.Register(bytes(wire.UUID_BYTES), 0))
        self.peers.append(peer)
        peer.register = peer.expect(wire.Register)
        return peer

    def register(self, epoch: int = 1) -> Peer:
        """The next client, registered."""
        peer = self.accept()
        peer.send(wire.SchedOn(client_id=1, epoch=epoch))
        return peer

    def die(self) -> None:
        """Ends as a killed scheduler does: its file stays, its connections end."""
        self.listener.close()
        for peer in self.peers:
            peer.connection.close()
        self.peers.clear()


def hung_up(peer: Peer) -> bool:
    """Whether the client has ended the connection, or does within the time of patience."""
    with contextlib.suppress(ConnectionError):
        while True:
            peer.receive()
    return True


def silent(peer: Peer, seconds: float) -> bool:
    """The client says nothing for that long."""
    return not select.select([peer.connection], [], [], seconds)[0]


@dataclass(slots=True)
class Obedient:
    """The program of ``programs/obedient.py``."""

    environment: dict[str, str]
    process: subprocess.Popen[str] = field(init=False)
    answers: queue.Queue[str] = field(default_factory=queue.Queue)
    errors: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "obedient.py")],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        assert self.process.stderr
        for stream, keep in ((self.process.stdout, self.answers.put), (self.process.stderr, self.errors.append)):
            reader = threading.Thread(
                target=lambda lines, do: [do(line.rstrip("\n")) for line in lines], args=(stream, keep)
            )
            reader.start()
            self.readers.append(reader)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def begin(self, command: str) -> None:
        """Gives a command and does not wait for its answer."""
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """The next answer."""
        return self.answers.get(timeout=PATIENCE)

    def do(self, command: str) -> str:
        """Gives a command and returns its answer."""
        self.begin(command)
        return self.answer()

    def said(self, text: str) -> str:
        """Waits for a line on stderr that contains the text."""
        return poll_until(lambda: next((line for line in self.errors if text in line), ""), f"stderr says {text!r}")

    def end(self) -> None:
        """Ends it by force, whatever it waits for."""
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def alive(pid: int) -> bool:
    """Whether the process exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False

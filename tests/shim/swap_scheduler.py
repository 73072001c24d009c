"""A scheduler that lets its clients have all that they want, and takes everything away when a test says so."""

from __future__ import annotations

import array
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import TIMEOUT, Peer

MIB = 1 << 20
PLENTY = 12 << 30
ARENA_BYTES = 1 << 30


@dataclass(slots=True)
class SwapClient:
    """One client; a thread of its own answers it."""

    peer: Peer
    lock: threading.Lock = field(default_factory=threading.Lock)
    order: int = 0
    holds: bool = False
    """It has the lock."""
    wants: bool = False
    """It has asked for it and not been answered."""
    closed: bool = False
    """If it asks for the lock it waits."""
    memory: wire.Resident = field(default_factory=lambda: wire.Resident(0, 0, 0))
    """What it said last."""
    most_resident: int = 0
    most_out: int = 0
    """Bytes, of all that it said."""
    notices: list[str] = field(default_factory=list)

    def serve(self) -> None:
        """Answers until the connection ends."""
        with self.lock:
            self.peer.send(wire.SchedOn(client_id=1, epoch=1))
            self.peer.send(wire.Limit(0))
            self._send_arena()
            if self.peer.register.state is wire.State.WAITING:
                self._want()
        try:
            while True:
                frame = self.peer.receive()
                with self.lock:
                    self._hear(frame)
        except OSError:
            return

    def _send_arena(self) -> None:
        segment = os.memfd_create("arena")
        os.ftruncate(segment, ARENA_BYTES)
        descriptors = array.array("i", [segment]).tobytes()
        data = wire.encode(wire.Arena(ARENA_BYTES))
        self.peer.connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        os.close(segment)

    def _hear(self, frame: wire.Frame) -> None:
        match frame:
            case wire.Grow(request=request):
                self._allot(0 if self.closed else PLENTY, request)
            case wire.Resident():
                self.memory = frame
                self.most_resident = max(self.most_resident, frame.resident_bytes)
                self.most_out = max(self.most_out, frame.out_bytes)
            case wire.ReqLock():
                self._want()
            case wire.LockReleased():
                self.holds = False
            case wire.Notice(text=text):
                self.notices.append(text)
            case _:
                pass

    def _want(self) -> None:
        self.wants = True
        if not self.closed:
            self._grant()

    def _grant(self) -> None:
        self.wants = False
        self.holds = True
        self._allot(PLENTY, 0)
        self.peer.grant()

    def _allot(self, allotted: int, request: int) -> None:
        self.order += 1
        self.peer.send(wire.Allot(self.order, allotted, PLENTY, PLENTY, request))

    def evict(self) -> None:
        """Takes the lock and all device memory away; waits until everything that can move is out."""
        with self.lock:
            self.closed = True
            if self.holds:
                self.peer.revoke()
            self.order += 1
            order = self.order
            self.peer.send(wire.Evict(order, 0))
        poll_until(
            lambda: not self.holds and self.memory.order >= order and not self.memory.resident_bytes,
            "everything is out",
        )

    def open(self) -> None:
        """If it asks for the lock, or has asked, it gets it and all its memory."""
        with self.lock:
            self.closed = False
            if self.wants:
                self._grant()


@dataclass(slots=True)
class SwapScheduler:
    """Listens at a path, until its context ends."""

    path: Path
    listener: socket.socket = field(init=False)
    threads: list[threading.Thread] = field(default_factory=list)
    clients: list[SwapClient] = field(default_factory=list)

    def __enter__(self) -> SwapScheduler:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        for client in self.clients:
            client.peer.connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for client in self.clients:
            client.peer.connection.close()
        self.listener.close()

    def _start(self, body: Callable[[], None]) -> None:
        thread = threading.Thread(target=body)
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            connection.settimeout(TIMEOUT)
            peer = Peer(connection, wire.Register(bytes(wire.UUID_BYTES), 0))
            peer.register = peer.expect(wire.Register)
            client = SwapClient(peer)
            self.clients.append(client)
            self._start(client.serve)

    @property
    def client(self) -> SwapClient:
        """The first one, which connects before long."""
        return poll_until(lambda: self.clients[:1], "a client has registered")[0]

    def evict(self) -> None:
        """All clients lose all."""
        poll_until(lambda: self.clients, "a client has registered")
        for client in self.clients:
            client.evict()

    def open(self) -> None:
        """All may have all."""
        for client in self.clients:
            client.open()

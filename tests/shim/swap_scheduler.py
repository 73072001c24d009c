"""A scheduler that lets one client have all that it wants, and takes everything away from it when a test says so."""

from __future__ import annotations

import array
import os
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import TIMEOUT, Peer

MIB = 1 << 20
PLENTY = 12 << 30
ARENA_BYTES = 1 << 30


@dataclass(slots=True)
class SwapScheduler:
    """Listens at a path; a thread of its own answers, until ``end``."""

    path: Path
    device_bytes: int = PLENTY
    arena_bytes: int = ARENA_BYTES
    listener: socket.socket = field(init=False)
    thread: threading.Thread = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)
    peer: Peer | None = None
    order: int = 0
    holds: bool = False
    """The client has the lock."""
    wants: bool = False
    """It has asked for it and not been answered."""
    closed: bool = False
    """Whoever asks for the lock waits."""
    memory: wire.Resident = field(default_factory=lambda: wire.Resident(0, 0, 0))
    """What the client said last."""
    most_resident: int = 0
    most_out: int = 0
    """Bytes, of all that it said."""
    notices: list[str] = field(default_factory=list)
    evictions: int = 0

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.listener.settimeout(TIMEOUT)
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def __enter__(self) -> SwapScheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        if self.peer:
            self.peer.connection.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        if self.peer:
            self.peer.connection.close()

    def _serve(self) -> None:
        try:
            connection = self.listener.accept()[0]
        except OSError:
            return
        peer = Peer(connection, wire.Register(bytes(wire.UUID_BYTES), 0))
        peer.register = peer.expect(wire.Register)
        with self.lock:
            self.peer = peer
            peer.send(wire.SchedOn(client_id=1, epoch=1))
            self._send_arena()
            if peer.register.state is wire.State.WAITING:
                self._want()
        try:
            while True:
                frame = peer.receive()
                with self.lock:
                    self._hear(frame)
        except (ConnectionError, OSError):
            return

    def _send_arena(self) -> None:
        assert self.peer
        segment = os.memfd_create("arena")
        os.ftruncate(segment, self.arena_bytes)
        data = wire.encode(wire.Arena(self.arena_bytes))
        descriptors = array.array("i", [segment]).tobytes()
        self.peer.connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        os.close(segment)

    def _hear(self, frame: wire.Frame) -> None:
        match frame:
            case wire.Grow(request=request):
                self._allot(0 if self.closed else self.device_bytes, request)
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
        assert self.peer
        self.wants = False
        self.holds = True
        self._allot(self.device_bytes, 0)
        self.peer.grant()

    def _allot(self, allotted: int, request: int) -> None:
        assert self.peer
        self.order += 1
        self.peer.send(wire.Allot(self.order, allotted, self.device_bytes, self.device_bytes, request))

    def evict(self) -> None:
        """Takes the lock and all device memory away; waits until everything that can move is out."""
        poll_until(lambda: self.peer, "a client has registered")
        with self.lock:
            assert self.peer
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
        self.evictions += 1

    def open(self) -> None:
        """Whoever asks for the lock, or has asked, gets it and all its memory."""
        with self.lock:
            self.closed = False
            if self.wants:
                self._grant()

"""The bytes of one peer: cut into messages of its protocol's size, sent without waiting, dropped when it is wrong.

The event loop's own transports are not used: ten thousand connections that say nothing must be cheap in memory and in
time, and a grant must be sent before the callback that decided it returns.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import Protocol

from nvshare.log import Log
from nvshare.protocol import legacy, wire
from nvshare.scheduler.clients.deadlines import Deadlines
from nvshare.scheduler.clients.fair_reading import FairReading
from nvshare.scheduler.clients.faults import Fault, PeerError
from nvshare.scheduler.clients.outbox import Outbox, Parcel
from nvshare.scheduler.pods.kill import kill_peer
from nvshare.scheduler.pods.peer import Peer

_READ_BYTES = 4096
_DESCRIPTOR_SPACE = socket.CMSG_LEN(array.array("i").itemsize)
"""For one: with more, or with one that nobody asked for, the kernel says that it has thrown something away."""


class Session(Protocol):
    """The server's side of one connection, in one protocol version."""

    def receive(self, message: bytes) -> None:
        """One message of the protocol's size came; PeerError when the peer is wrong."""

    def closed(self) -> None:
        """The connection ended."""


class Owner(Protocol):
    """Whoever keeps the connections."""

    def dropped(self, fault: Fault) -> None:
        """A connection is about to be ended because its peer is wrong."""

    def forget(self, connection: Connection) -> None:
        """The connection ended."""


class Connection:
    """One accepted socket."""

    __slots__ = (
        "_buffer",
        "_descriptors",
        "_fd",
        "_half_frames",
        "_log",
        "_loop",
        "_message_bytes",
        "_outbox",
        "_owner",
        "_reading",
        "_session",
        "_sessions",
        "_socket",
        "expects",
        "peer",
    )

    def __init__(
        self,
        accepted: socket.socket,
        peer: Peer,
        loop: asyncio.AbstractEventLoop,
        sessions: Mapping[int, SessionFactory],
        owner: Owner,
        half_frames: Deadlines[Connection],
        reading: FairReading,
        log: Log,
    ) -> None:
        """``sessions``: by protocol version, what makes the session of a connection whose peer speaks it."""
        self.peer = peer
        self._socket = accepted
        self._fd = accepted.fileno()
        self._loop = loop
        self._sessions = sessions
        self._owner = owner
        self._half_frames = half_frames
        self._reading = reading
        self._log = log
        self._buffer = b""
        self._descriptors: tuple[int, ...] = ()
        """Those that came, in their order; no more than are expected."""
        self.expects = 0
        """How many descriptors the peer may send now."""
        self._message_bytes = 0
        self._session: Session | None = None
        self._outbox: Outbox | None = None
        """What the socket does not take yet; None: there is nothing."""
        self.resume()

    @property
    def is_open(self) -> bool:
        """False once the connection ended, from either side."""
        return self._fd >= 0

    def send(self, message: bytes, parcel: Parcel | None = None) -> None:
        """Sends now, or as soon as the peer reads; a peer that reads too little is dropped a moment later.

        ``parcel`` goes with the message.
        """
        if not self.is_open:
            if parcel is not None:
                parcel.drop()
        elif self._outbox is None:
            outbox = Outbox(self._socket, message, parcel)
            if not outbox.send():
                self._outbox = outbox
                self._loop.add_writer(self._fd, self._on_writable)
        elif not self._outbox.add(message, parcel):
            self._loop.call_soon(self.drop, "it reads nothing of what it is sent", Fault.NOT_READING)

    def take_descriptor(self) -> int:
        """The one that came with a message, the caller's to close; PeerError if none came."""
        if not self._descriptors:
            raise PeerError("a descriptor is missing")
        first, *rest = self._descriptors
        self._descriptors = tuple(rest)
        return first

    def kill(self) -> None:
        """Ends the peer's process with SIGKILL; OSError if that is not possible."""
        kill_peer(self._socket, self.peer)

    def drop(self, reason: str, fault: Fault) -> None:
        """Ends the connection of a peer that is wrong, with one log line."""
        if self.is_open:
            self._owner.dropped(fault)
            self._log.warning("peer disconnected", reason=reason, pid=self.peer.pid, uid=self.peer.uid)
            self.close()

    def close(self) -> None:
        """Ends the connection."""
        if not self.is_open:
            return
        self._loop.remove_reader(self._fd)
        if self._outbox is not None:
            self._loop.remove_writer(self._fd)
            self._outbox.clear()
            self._outbox = None
        self._fd = -1
        self._socket.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()
        self._buffer = b""
        self._half_frames.end(self)
        self._owner.forget(self)
        session, self._session = self._session, None
        if session is not None:
            session.closed()

    def pass_to(self, session: Session) -> None:
        """The session ends as if the connection had ended; what comes from now on is for the other one."""
        former, self._session = self._session, session
        if former is not None:
            former.closed()

    def abandon(self) -> None:
        """Ends the connection because the scheduler ends; nobody is told."""
        self._session = None
        self.close()

    def pause(self) -> None:
        """See ``fair_reading.Source``."""
        self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """See ``fair_reading.Source``."""
        if self.is_open:
            self._loop.add_reader(self._fd, self._reading.readable, self.peer.pid, self)

    def read(self, may_go_on: Callable[[], bool]) -> bool:
        """See ``fair_reading.Source``."""
        had_half = bool(self._buffer) and not self._has_message
        if self.is_open and (self._has_message or self._receive()):
            try:
                self._work(may_go_on, had_half=had_half)
            except PeerError as error:
                self.drop(str(error), error.fault)
        return self._has_message

    @property
    def _has_message(self) -> bool:
        """Whether a whole message was read and is not worked on yet."""
        return len(self._buffer) >= (self._message_bytes or 1)

    def _receive(self) -> bool:
        """Whether more bytes are there."""
        space = _DESCRIPTOR_SPACE if self.expects else 0
        try:
            data, control, flags, _address = self._socket.recvmsg(_READ_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data, control, flags = b"", [], 0
        if control or flags & socket.MSG_CTRUNC:
            self._keep(control)
            if flags & socket.MSG_CTRUNC or len(self._descriptors) > self.expects:
                self.drop("it sent a descriptor that nobody asked for", Fault.PROTOCOL)
                return False
        if not data:
            self._on_end()
        self._buffer += data
        return bool(data)

    def _keep(self, control: list[tuple[int, int, bytes]]) -> None:
        for level, kind, raw in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._descriptors += tuple(array.array("i", raw))

    def _on_end(self) -> None:
        if self._buffer:
            self.drop("the connection ended within a frame", Fault.HALF_FRAME)
        else:
            self.close()

    def _work(self, may_go_on: Callable[[], bool], *, had_half: bool) -> None:
        """``had_half``: before the last read it had half a message, whose time runs."""
        if self._session is None:
            self._begin(self._buffer[0])
        size, worked = self._message_bytes, False
        while self._session is not None and self._has_message and (not worked or may_go_on()):
            message, self._buffer = self._buffer[:size], self._buffer[size:]
            self._session.receive(message)
            worked = True
        if self._buffer and not self._has_message and (worked or not had_half):
            self._half_frames.begin(self)
        elif had_half and worked:
            self._half_frames.end(self)

    def _begin(self, first_byte: int) -> None:
        if first_byte == wire.MAGIC:
            self._message_bytes = wire.FRAME_BYTES
            version = wire.VERSION
        elif first_byte in legacy.FIRST_BYTES:
            self._message_bytes = legacy.MESSAGE_BYTES
            version = legacy.VERSION
        else:
            raise PeerError(f"its first byte is 0x{first_byte:02x}, which begins no known protocol", Fault.VERSION)
        self._session = self._sessions[version](self)

    def _on_writable(self) -> None:
        if self._outbox is not None and self._outbox.send():
            self._outbox = None
            self._loop.remove_writer(self._fd)


SessionFactory = Callable[[Connection], Session]
"""Makes the session of a connection, in one protocol version."""

"""The bytes of one peer: cut into messages of its protocol's size, sent without waiting, dropped when it is wrong.

The event loop's own transports are not used: ten thousand connections that say nothing must be cheap in memory and in
time, and a grant must be on its way before the callback that decided it returns.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from nvshare.protocol import legacy, wire

if TYPE_CHECKING:
    import asyncio
    import socket

    from nvshare.scheduler.log import PeerLog
    from nvshare.scheduler.patience import Patience
    from nvshare.scheduler.pods.peer import Peer

_READ_BYTES = 4096
_QUEUE_FRAMES = 64
"""What a peer that does not read may leave unsent here, beside what its socket's buffer takes."""


class Fault(Enum):
    """Why peers are disconnected, in kinds that can be counted."""

    PROTOCOL = "protocol"
    """It sent what its protocol or its state does not allow."""
    VERSION = "version"
    """It speaks a version that is not spoken here."""
    SILENT = "silent"
    """It did not register in time."""
    HALF_FRAME = "half-frame"
    """It did not finish a message."""
    NOT_READING = "not-reading"
    """It does not read what it is sent."""
    DEVICE = "device"
    """There is no device for it."""
    COMMAND = "command"
    """It gave a command that is not its to give, or one with a wrong value."""


class PeerError(Exception):
    """The peer is wrong and must be disconnected; the message is for the log."""

    def __init__(self, message: str, fault: Fault = Fault.PROTOCOL) -> None:
        super().__init__(message)
        self.fault = fault


class Conversation(Protocol):
    """What is said over a connection, in one protocol version."""

    def receive(self, message: bytes) -> None:
        """One message of the protocol's size came; PeerError when the peer is wrong."""

    def closed(self) -> None:
        """The connection ended."""


class Greeter(Protocol):
    """Chooses the conversation that a connection's first byte asks for."""

    def greet(self, connection: Connection, version: int) -> Conversation:
        """The conversation of protocol ``version`` (1 or 2) over ``connection``."""

    def dropped(self, fault: Fault) -> None:
        """A connection is about to be ended because its peer is wrong."""

    def forget(self, connection: Connection) -> None:
        """The connection ended."""


class Connection:
    """One accepted socket."""

    __slots__ = (
        "_buffer",
        "_conversation",
        "_fd",
        "_greeter",
        "_half_frames",
        "_log",
        "_loop",
        "_message_bytes",
        "_queue",
        "_socket",
        "peer",
    )

    def __init__(
        self,
        accepted: socket.socket,
        peer: Peer,
        loop: asyncio.AbstractEventLoop,
        greeter: Greeter,
        half_frames: Patience[Connection],
        log: PeerLog,
    ) -> None:
        self.peer = peer
        self._socket = accepted
        self._fd = accepted.fileno()
        self._loop = loop
        self._greeter = greeter
        self._half_frames = half_frames
        self._log = log
        self._buffer = b""
        self._message_bytes = 0
        self._conversation: Conversation | None = None
        self._queue: deque[bytes] | None = None
        loop.add_reader(self._fd, self._on_readable)

    @property
    def is_open(self) -> bool:
        """False once the connection ended, from either side."""
        return self._fd >= 0

    def send(self, message: bytes) -> None:
        """Sends now, or as soon as the peer reads; a peer that reads too little is dropped a moment later."""
        if not self.is_open:
            return
        if self._queue is None:
            try:
                sent = self._socket.send(message)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                # The end of the connection shows on the reading side; what the peer sent before is read first.
                return
            if sent == len(message):
                return
            self._queue = deque((message[sent:],))
            self._loop.add_writer(self._fd, self._on_writable)
        elif len(self._queue) < _QUEUE_FRAMES:
            self._queue.append(message)
        else:
            self._queue.clear()
            self._loop.call_soon(self.drop, "it reads nothing of what it is sent", Fault.NOT_READING)

    def drop(self, reason: str, fault: Fault) -> None:
        """Ends the connection of a peer that is wrong, with one log line."""
        if self.is_open:
            self._greeter.dropped(fault)
            self._log.warning("peer disconnected", reason=reason, pid=self.peer.pid, uid=self.peer.uid)
            self.close()

    def close(self) -> None:
        """Ends the connection."""
        if not self.is_open:
            return
        self._loop.remove_reader(self._fd)
        if self._queue is not None:
            self._loop.remove_writer(self._fd)
            self._queue = None
        self._fd = -1
        self._socket.close()
        self._buffer = b""
        self._half_frames.end(self)
        self._greeter.forget(self)
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.closed()

    def abandon(self) -> None:
        """Ends the connection because the scheduler ends; nobody is told."""
        self._conversation = None
        self.close()

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._on_end()
            return
        try:
            self._take(data)
        except PeerError as error:
            self.drop(str(error), error.fault)

    def _on_end(self) -> None:
        if self._buffer:
            self.drop("the connection ended within a frame", Fault.HALF_FRAME)
        else:
            self.close()

    def _take(self, data: bytes) -> None:
        conversation = self._conversation or self._greet(data[0])
        had_half = bool(self._buffer)
        if had_half:
            data = self._buffer + data
        size = self._message_bytes
        whole = len(data) // size * size
        self._buffer = data[whole:]
        for start in range(0, whole, size):
            conversation.receive(data[start : start + size])
            if not self.is_open:
                return
        if self._buffer and (whole or not had_half):
            self._half_frames.begin(self)
        elif had_half and not self._buffer:
            self._half_frames.end(self)

    def _greet(self, first_byte: int) -> Conversation:
        if first_byte == wire.MAGIC:
            self._message_bytes = wire.FRAME_BYTES
            version = wire.VERSION
        elif first_byte in legacy.FIRST_BYTES:
            self._message_bytes = legacy.MESSAGE_BYTES
            version = 1
        else:
            raise PeerError(f"its first byte is 0x{first_byte:02x}, which begins no known protocol", Fault.VERSION)
        self._conversation = self._greeter.greet(self, version)
        return self._conversation

    def _on_writable(self) -> None:
        queue = self._queue
        if queue is None:
            return
        try:
            while queue:
                sent = self._socket.send(queue[0])
                if sent < len(queue[0]):
                    queue[0] = queue[0][sent:]
                    return
                queue.popleft()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            queue.clear()
        self._queue = None
        self._loop.remove_writer(self._fd)

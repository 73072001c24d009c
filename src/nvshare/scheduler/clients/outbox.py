"""What a peer's socket does not take yet: messages in their order, some of them with a descriptor."""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from nvshare.scheduler.registered_client import Delivery

_MESSAGES: Final = 64
"""How many are kept for a peer that does not read, beside those in its socket's buffer."""


class Parcel:
    """A descriptor that goes with a message; it stays its owner's to close."""

    __slots__ = ("_descriptor", "_done")

    def __init__(self, descriptor: int, done: Callable[[Delivery], None]) -> None:
        """``done`` is called once, from within whatever is done here."""
        self._descriptor = descriptor
        self._done = done

    def send(self, to: socket.socket, message: bytes) -> int:
        """Sends it with the message, of which the answer is how many bytes are done with; OSError as ``socket.send``.

        All of them are if it can't go now: what comes after it does not wait for it.
        """
        try:
            went = socket.send_fds(to, [message], [self._descriptor])
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            self._done(Delivery.NOT_NOW)
            return len(message)
        self._done(Delivery.WENT)
        return went

    def drop(self) -> None:
        """It does not go any more."""
        self._done(Delivery.NEVER)


class Outbox:
    """Messages to one socket, which does not block."""

    __slots__ = ("_messages", "_socket")

    def __init__(self, to: socket.socket, message: bytes, parcel: Parcel | None) -> None:
        self._socket = to
        self._messages = deque(((message, parcel),))

    def add(self, message: bytes, parcel: Parcel | None) -> bool:
        """Puts one behind the others. False if there are too many: then all are gone, with their parcels."""
        self._messages.append((message, parcel))
        if len(self._messages) <= _MESSAGES:
            return True
        self.clear()
        return False

    def send(self) -> bool:
        """Sends what the socket takes. Whether all went: also when the connection has ended, as reading will find."""
        messages = self._messages
        try:
            while messages:
                message, parcel = messages[0]
                went = self._socket.send(message) if parcel is None else parcel.send(self._socket, message)
                # A descriptor goes with the first byte.
                messages[0] = message[went:], None
                if messages[0][0]:
                    return False
                messages.popleft()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.clear()
        return True

    def clear(self) -> None:
        """Forgets all, with their parcels."""
        for _message, parcel in self._messages:
            if parcel is not None:
                parcel.drop()
        self._messages.clear()

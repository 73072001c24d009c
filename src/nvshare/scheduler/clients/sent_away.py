"""The session of a client that was sent away while it held. It listens until the client has given the lock back."""

from __future__ import annotations

from nvshare.protocol import wire
from nvshare.scheduler.clients.connection import Connection


class SentAway:
    """The session of such a connection, in version 2. To the core the client is gone."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def receive(self, message: bytes) -> None:
        """See ``connection.Session``. What it says counts no more, but that nothing of it runs now."""
        try:
            gave_back = isinstance(wire.decode(message), wire.LockReleased)
        except wire.WireError:
            gave_back = True
        if gave_back:
            self._connection.close()

    def closed(self) -> None:
        """See ``connection.Session``."""

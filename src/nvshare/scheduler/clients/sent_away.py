"""What is left of a client that was sent away while it held: it is heard until it has given back what it held."""

from __future__ import annotations

from nvshare.protocol import legacy, wire
from nvshare.protocol.legacy import LegacyType
from nvshare.scheduler.clients.connection import Connection


class SentAway:
    """The session of such a connection, in either protocol. To the core the client is gone."""

    __slots__ = ("_connection", "_version")

    def __init__(self, connection: Connection, version: int) -> None:
        self._connection = connection
        self._version = version

    def receive(self, message: bytes) -> None:
        """See ``connection.Session``. What it says counts no more, but that nothing of it runs now."""
        try:
            if self._version == legacy.VERSION:
                gave_back = legacy.decode(message).type is LegacyType.LOCK_RELEASED
            else:
                gave_back = isinstance(wire.decode(message), wire.LockReleased)
        except (legacy.LegacyError, wire.WireError):
            gave_back = True
        if gave_back:
            self._connection.close()

    def closed(self) -> None:
        """See ``connection.Session``."""

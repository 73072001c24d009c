"""What a session knows about a client that registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nvshare.scheduler.clients.connection import Connection
from nvshare.scheduler.gpus.names import NamedDevice
from nvshare.scheduler.pods.description import Hints
from nvshare.scheduler.registered_client import ActionReceiver


@dataclass(frozen=True, slots=True)
class Registration:
    """Who registers, over which connection."""

    connection: Connection
    receiver: ActionReceiver
    hints: Hints
    device: NamedDevice
    protocol_version: int
    backend: str
    """managed, native, swap, or empty when the protocol does not say."""
    welcome: bytes
    """The message that tells the client that it is registered."""
    described: Callable[[], None] = lambda: None
    """Called once it is found out who the client is."""
    known: Callable[[], None] = lambda: None
    """Called once it is known what its container may have."""
    overdue: Callable[[str], None] = lambda _reason: None
    """Called when that is not known in time: memory is refused to it, for this reason, until it is."""

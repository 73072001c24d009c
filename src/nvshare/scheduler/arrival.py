"""A client at the moment of its registration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvshare.scheduler.connection import Connection
    from nvshare.scheduler.pods.description import Hints
    from nvshare.scheduler.switchboard import Client


@dataclass(frozen=True, slots=True)
class Device:
    """What a client means by a device."""

    name: str
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """Who registers, over which connection, and the message that says that it may."""

    connection: Connection
    client: Client
    hints: Hints
    device: Device
    protocol_version: int
    backend: str
    welcome: bytes

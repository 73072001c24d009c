"""What can be wrong with a peer, so that it is disconnected."""

from __future__ import annotations

from enum import Enum


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
    NOT_GIVEN = "not-given"
    """It is on a GPU that kubelet did not give to its container."""
    CROWDED = "crowded"
    """Its process or its user has too many connections, or another one needed its place."""
    COMMAND = "command"
    """It gave a command that it may not give, or one with a wrong value."""


class PeerError(Exception):
    """The peer is wrong and must be disconnected; the message is for the log."""

    def __init__(self, message: str, fault: Fault = Fault.PROTOCOL) -> None:
        super().__init__(message)
        self.fault = fault


class ComeAgainError(PeerError):
    """The peer is early: it is disconnected without being refused, so that it connects again soon."""

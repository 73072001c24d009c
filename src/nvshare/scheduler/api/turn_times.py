"""How long clients wait, hold and drain, and how long a hand-over takes, from what the core is told and says. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from nvshare.scheduler.core.actions import Action, Grant, Revoke
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    Event,
    LockReleased,
    LockRequested,
)


class Figure(Enum):
    """What is measured."""

    WAIT = "wait"
    """From REQ_LOCK to LOCK_OK."""
    TURN = "turn"
    """From LOCK_OK to LOCK_RELEASED, or the client's end."""
    DRAIN = "drain"
    """From DROP_LOCK to LOCK_RELEASED."""
    HAND_OVER = "hand_over"
    """To the LOCK_OK of one that waited, from the DROP_LOCK for it, or else from the LOCK_RELEASED that made room."""
    STALL = "stall"
    """Of a hand-over to a client whose memory swaps: from the LOCK_RELEASED that made room to the LOCK_OK."""
    WAKE_ROOM = "wake_room"
    """From the first call at a closed door until there is room for the contexts of its process."""
    WAKE_CONTEXT = "wake_context"
    """From then until the door is open."""
    WAKE_DATA = "wake_data"
    """From the first REQ_LOCK after that to LOCK_OK."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of one client."""

    figure: Figure
    client: int
    device: str
    seconds: float


@dataclass(slots=True)
class _Client:
    device: str
    swaps: bool
    waits_since: float | None = None
    holds_since: float | None = None
    """None also for a turn that began under another scheduler."""
    holds: bool = False
    revoked_at: float | None = None


@dataclass(slots=True)
class _Device:
    revoked_at: float | None = None
    """When the first holder was asked to leave since the last grant."""
    released_at: float | None = None
    """When a holder left last since the last grant."""


class TurnTimes:
    """Follows every client from event to event."""

    def __init__(self) -> None:
        self._clients: dict[int, _Client] = {}
        self._devices: dict[str, _Device] = {}

    def happened(self, event: Event | None, actions: Sequence[Action], now: float) -> list[Measured]:
        """What can be measured after an event (None: the timer) that the core answered with these actions."""
        measured: list[Measured] = []
        match event:
            case ClientRegistered(client, device, _, claimed, backend=backend):
                self._devices.setdefault(device, _Device())
                waits = claimed is ClaimedState.WAITING
                holds = not waits and claimed is not ClaimedState.IDLE
                self._clients[client] = _Client(device, backend is Backend.SWAP, now if waits else None, holds=holds)
            case LockRequested(client):
                self._clients[client].waits_since = now
            case LockReleased(client):
                self._release(client, now, measured, drained=True)
            case ClientGone(client):
                self._release(client, now, measured, drained=False)
                del self._clients[client]
            case _:
                pass
        for action in actions:
            match action:
                case Grant(client):
                    self._grant(client, now, measured)
                case Revoke(client):
                    self._revoke(client, now)
                case _:
                    pass
        return measured

    def _grant(self, number: int, now: float, measured: list[Measured]) -> None:
        client = self._clients[number]
        device = self._devices[client.device]
        since = now if client.waits_since is None else client.waits_since
        measured.append(Measured(Figure.WAIT, number, client.device, now - since))
        left = next((at for at in (device.revoked_at, device.released_at) if at is not None and at >= since), None)
        if left is not None and device.released_at is not None:
            measured.append(Measured(Figure.HAND_OVER, number, client.device, now - left))
            if client.swaps:
                measured.append(Measured(Figure.STALL, number, client.device, now - device.released_at))
        device.revoked_at = device.released_at = None
        client.waits_since, client.holds_since, client.holds, client.revoked_at = None, now, True, None

    def _revoke(self, number: int, now: float) -> None:
        client = self._clients[number]
        client.revoked_at = now
        device = self._devices[client.device]
        if device.revoked_at is None:
            device.revoked_at = now

    def _release(self, number: int, now: float, measured: list[Measured], *, drained: bool) -> None:
        client = self._clients[number]
        if not client.holds:
            return
        if client.holds_since is not None:
            measured.append(Measured(Figure.TURN, number, client.device, now - client.holds_since))
        if drained and client.revoked_at is not None:
            measured.append(Measured(Figure.DRAIN, number, client.device, now - client.revoked_at))
        self._devices[client.device].released_at = now
        client.holds, client.holds_since, client.revoked_at = False, None, None

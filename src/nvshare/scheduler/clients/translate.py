"""Between the wire and the core: frames become events, actions become frames. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from nvshare.protocol import wire
from nvshare.scheduler.core.actions import Allot, ClientAction, Evict, Grant, RefuseGrowth, Revoke, TellWaiters
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    FootprintChanged,
    LockReleased,
    LockRequested,
)

_CLAIMED: Final = {
    wire.State.IDLE: ClaimedState.IDLE,
    wire.State.WAITING: ClaimedState.WAITING,
    wire.State.HOLDING: ClaimedState.HOLDING,
    wire.State.DRAINING: ClaimedState.DRAINING,
}

_BACKEND: Final = {
    wire.Backend.MANAGED: Backend.MANAGED,
    wire.Backend.NATIVE: Backend.NATIVE,
}


def registered(frame: wire.Register, client: int, device: str) -> ClientRegistered:
    """The event of a version 2 REGISTER, as client ``client`` on the device that is called ``device``."""
    return ClientRegistered(
        client,
        device,
        frame.footprint_bytes,
        _CLAIMED[frame.state],
        frame.grant,
        backend=_BACKEND[frame.backend],
        device_bytes=frame.total_bytes,
    )


def event_of(
    frame: wire.ReqLock | wire.LockReleased | wire.Footprint, client: int
) -> LockRequested | LockReleased | FootprintChanged:
    """The event of any other frame of a client."""
    match frame:
        case wire.ReqLock():
            return LockRequested(client)
        case wire.LockReleased(grant):
            return LockReleased(client, grant)
        case wire.Footprint(footprint_bytes):
            return FootprintChanged(client, footprint_bytes)
        case _:
            assert_never(frame)


def frame_of(action: ClientAction) -> wire.SchedulerFrame:
    """What to send to the client that the action names."""
    match action:
        case Grant(_, grant):
            return wire.LockOk(grant)
        case Revoke(_, grant):
            return wire.DropLock(grant)
        case TellWaiters(_, waiters, idle_seconds):
            return wire.Waiters(waiters, round(idle_seconds * 1e6))
        case Allot(_, order, allotted_bytes, admitted_bytes, capacity_bytes, request):
            return wire.Allot(order, allotted_bytes, admitted_bytes, capacity_bytes, request)
        case Evict(_, order, allotted_bytes):
            return wire.Evict(order, allotted_bytes)
        case RefuseGrowth(_, request, reason):
            return wire.RefuseGrowth(request, reason)
        case _:
            assert_never(action)

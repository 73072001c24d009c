"""Between the wire and the core: frames become events, actions become frames. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from nvshare.protocol import wire
from nvshare.scheduler.core.actions import Grant, Revoke, TellWaiters
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientRegistered,
    FootprintChanged,
    LockReleased,
    LockRequested,
)

IDLE_HINT_MICROSECONDS: Final = 20_000
"""How long a holder that others wait for is idle before it releases: about what a hand-over without swapping costs."""

_CLAIMED: Final = {
    wire.State.IDLE: ClaimedState.IDLE,
    wire.State.WAITING: ClaimedState.WAITING,
    wire.State.HOLDING: ClaimedState.HOLDING,
    wire.State.DRAINING: ClaimedState.DRAINING,
}


def registered(frame: wire.Register, client: int, device: str) -> ClientRegistered:
    """The event of a version 2 REGISTER, as client ``client`` on the device that is called ``device``."""
    return ClientRegistered(client, device, frame.footprint_bytes, _CLAIMED[frame.state], frame.grant)


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


def frame_of(action: Grant | Revoke | TellWaiters) -> wire.SchedulerFrame:
    """What to send to the client that the action names."""
    match action:
        case Grant(_, grant):
            return wire.LockOk(grant)
        case Revoke(_, grant):
            return wire.DropLock(grant)
        case TellWaiters(_, waiters):
            return wire.Waiters(waiters, IDLE_HINT_MICROSECONDS if waiters else 0)
        case _:
            assert_never(action)

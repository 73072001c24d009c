"""Every state of a client and every legal step from one state to another, as one table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from nvshare.scheduler.core.events import ClaimedState


class ClientState(StrEnum):
    """What the scheduler knows about one client."""

    IDLE = "idle"
    """Has no lock and wants none."""
    WAITING = "waiting"
    """Asked for the lock and is in the queue."""
    HOLDING = "holding"
    """Has the lock."""
    LEAVING = "leaving"
    """Has the lock and was asked to give it back."""
    UNRESPONSIVE = "unresponsive"
    """Has the lock and did not give it back within the grace time."""


class Step(StrEnum):
    """What can happen to one client."""

    REQUESTED = "requested"
    SUMMONED = "summoned"
    """Another member of its gang wants the lock."""
    FELL_ASLEEP = "fell asleep"
    """Its process sleeps while it waits; it asks again when it is awake."""
    REQUESTED_AGAIN = "requested again"
    """A client that was summoned also asks for the lock, which crossed that."""
    GRANTED = "granted"
    REVOKED = "revoked"
    OVERDUE = "grace time passed"
    RELEASED = "released"
    RELEASED_AGAIN = "released again"
    """A client that released a grant by itself also answers the Revoke of it, which crossed its release."""


INITIAL: Final[Mapping[ClaimedState, ClientState]] = {
    ClaimedState.IDLE: ClientState.IDLE,
    ClaimedState.WAITING: ClientState.WAITING,
    ClaimedState.HOLDING: ClientState.HOLDING,
    ClaimedState.DRAINING: ClientState.LEAVING,
}
"""Where a claim that is believed leads. Who claims to hold and is not believed is leaving, or idle if it is doubted."""

TRANSITIONS: Final[Mapping[ClientState, Mapping[Step, ClientState]]] = {
    ClientState.IDLE: {
        Step.REQUESTED: ClientState.WAITING,
        Step.SUMMONED: ClientState.WAITING,
        Step.RELEASED_AGAIN: ClientState.IDLE,
    },
    ClientState.WAITING: {
        Step.GRANTED: ClientState.HOLDING,
        Step.FELL_ASLEEP: ClientState.IDLE,
        Step.REQUESTED_AGAIN: ClientState.WAITING,
        Step.RELEASED_AGAIN: ClientState.WAITING,
    },
    ClientState.HOLDING: {
        Step.RELEASED: ClientState.IDLE,
        Step.REVOKED: ClientState.LEAVING,
        Step.REQUESTED_AGAIN: ClientState.HOLDING,
        Step.RELEASED_AGAIN: ClientState.HOLDING,
    },
    ClientState.LEAVING: {
        Step.RELEASED: ClientState.IDLE,
        Step.OVERDUE: ClientState.UNRESPONSIVE,
        Step.REQUESTED_AGAIN: ClientState.LEAVING,
        Step.RELEASED_AGAIN: ClientState.LEAVING,
    },
    ClientState.UNRESPONSIVE: {
        Step.RELEASED: ClientState.IDLE,
        Step.REQUESTED_AGAIN: ClientState.UNRESPONSIVE,
        Step.RELEASED_AGAIN: ClientState.UNRESPONSIVE,
    },
}
"""A client may go (ClientGone) in every state; that ends it."""

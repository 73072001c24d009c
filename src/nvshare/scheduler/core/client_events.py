"""Events of one client: whether its state allows them, and what they change there. What is illegal changes nothing."""

from __future__ import annotations

from typing import assert_never

from nvshare.scheduler.core.actions import Action, Revoke
from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ArenaGrown,
    ClaimedState,
    ClientRegistered,
    Event,
    GrowthRequested,
    LockReleased,
    ResidencyReported,
)
from nvshare.scheduler.core.transitions import ClientState, Step

SwapEvent = GrowthRequested | ResidencyReported | ArenaGrown


def handle_swap(event: SwapEvent, client: Client, device: Device, now: float) -> None:
    """What a client that swaps did."""
    swap = client.swap
    if swap is None:
        raise IllegalEvent(f"client {client.number} does not swap", event)
    match event:
        case GrowthRequested():
            device.grow(client, swap, event, now)
        case ResidencyReported():
            if not swap.going_by <= event.order <= swap.order:
                raise IllegalEvent(f"client {client.number} goes by order {swap.going_by} of {swap.order}", event)
            if event.resident_bytes > event.footprint_bytes:
                raise IllegalEvent(f"client {client.number} has no more than its footprint", event)
            device.report(client, swap, event, now)
        case ArenaGrown():
            if not swap.arena_asked_bytes:
                raise IllegalEvent(f"client {client.number} waits for no host memory", event)
            device.residency.arena_grown(swap, event.segment_bytes)
        case _:
            assert_never(event)


def check(client: Client, step: Step, event: Event) -> None:
    """IllegalEvent unless the step is legal in the client's state."""
    if not client.allows(step):
        raise IllegalEvent(f"client {client.number} is {client.state.value}", event)


def disbelieve(client: Client, event: ClientRegistered, actions: list[Action]) -> None:
    """No record says that the client holds: it must leave, and what it says of its grant then is no fault."""
    if event.doubted:
        client.state = ClientState.IDLE
        client.crossed_grant = event.grant
    else:
        client.state = ClientState.LEAVING
    if event.claimed is ClaimedState.HOLDING:
        actions.append(Revoke(client.number, event.grant))


def release(client: Client, device: Device, event: LockReleased, now: float) -> bool:
    """Takes a grant back; False if it was back already and this only answers a Revoke that crossed the release."""
    if client.holds and event.grant == client.grant:
        device.release(client, now)
        return True
    if event.grant != client.crossed_grant:
        held = f"holds grant {client.grant}" if client.holds else f"is {client.state.value}"
        raise IllegalEvent(f"client {client.number} {held}", event)
    client.advance(Step.RELEASED_AGAIN)
    client.crossed_grant = None
    return False

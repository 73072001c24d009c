"""Events of one client: whether its state allows them, and what they change there. What is illegal changes nothing.

Each function returns whether there may be something to do on the client's device.
"""

from __future__ import annotations

from typing import assert_never

from nvshare.scheduler.core.actions import Action, Revoke
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ArenaGrown,
    ClaimedState,
    ClientRegistered,
    Event,
    FootprintChanged,
    GrowthRequested,
    LockReleased,
    PinnedAssumed,
    PinnedMeasured,
    ProgressOffered,
    ProgressReported,
    ResidencyReported,
)
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.transitions import Step


def resize(event: FootprintChanged, client: Client, device: Device, _now: float) -> bool:
    """A client that does not swap has other memory than before."""
    if client.memory.swaps:
        raise IllegalEvent(f"client {client.number} swaps", event)
    device.resize(client, event.footprint_bytes)
    return True


def pin(event: PinnedMeasured | PinnedAssumed, client: Client, device: Device, now: float) -> bool:
    """What is pinned for a client was measured, or something better is known than what was assumed."""
    device.pin(client, event.pinned_bytes, now, measured=isinstance(event, PinnedMeasured))
    return True


def progress(event: ProgressOffered | ProgressReported, client: Client, device: Device, now: float) -> bool:
    """A client can tell how far it is, or does."""
    device.lock.mix.handle(event, client, now)
    return True


def handle_swap(
    event: GrowthRequested | ResidencyReported | ArenaGrown, client: Client, device: Device, now: float
) -> bool:
    """What a client that swaps did."""
    memory = client.memory
    if not memory.swaps:
        raise IllegalEvent(f"client {client.number} does not swap", event)
    match event:
        case GrowthRequested():
            device.grow(client, event, now)
        case ResidencyReported():
            orders = memory.orders
            if not orders.going_by <= event.order <= orders.newest:
                raise IllegalEvent(f"client {client.number} goes by order {orders.going_by} of {orders.newest}", event)
            if event.resident_bytes > event.footprint_bytes:
                raise IllegalEvent(f"client {client.number} has no more than its footprint", event)
            device.report(client, event, now)
        case ArenaGrown():
            if not (memory.away.asked_bytes if memory.away.is_there else memory.arena_asked_bytes):
                raise IllegalEvent(f"client {client.number} waits for no host memory", event)
            device.residency.arena_grown(client, event.segment_bytes)
        case _:
            assert_never(event)
    return True


def check(client: Client, step: Step, event: Event) -> None:
    """IllegalEvent unless the step is legal in the client's state."""
    if not client.allows(step):
        raise IllegalEvent(f"client {client.number} is {client.state.value}", event)


def disbelieve(client: Client, event: ClientRegistered) -> list[Action]:
    """No record says that the client holds: it must leave, and what it says of its grant then is no fault.

    Returns what it is told."""
    client.disbelieve(doubted=event.doubted)
    return [Revoke(client.number, event.grant)] if event.claimed is ClaimedState.HOLDING else []


def release(event: LockReleased, client: Client, device: Device, now: float) -> bool:
    """Takes a grant back; False if it was back already and this only answers a Revoke that crossed the release."""
    if client.holds and event.grant == client.grant:
        device.release(client, now)
        return True
    if event.grant != client.crossed_grant:
        held = f"holds grant {client.grant}" if client.holds else f"is {client.state.value}"
        raise IllegalEvent(f"client {client.number} {held}", event)
    client.release_again()
    return False

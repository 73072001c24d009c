"""Several devices that are due at the same time: what the core answers does not depend on chance."""

from __future__ import annotations

from nvshare.scheduler.core.actions import Grant, ReportUnresponsive, Revoke
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    HolderDied,
    HolderRecorded,
    LockReleased,
    LockRequested,
    Policy,
)
from nvshare.scheduler.core.settings import Settings

DEVICES = 32
"""Enough that a set of their names has them in this order by chance once in 32! times."""
QUANTUM = 30.0
GRACE = 10.0


def name(device: int) -> str:
    """Device 0 was seen first."""
    return f"GPU-{device}"


def holder(device: int) -> int:
    """The client that holds the device."""
    return 2 * device


def waiter(device: int) -> int:
    """The client that waits for the device."""
    return 2 * device + 1


def waiting_everywhere(recorded: dict[int, int] | None = None) -> Core:
    """At 0 s every device has a holder and a waiter; the devices got their deadlines in the reverse order.

    ``recorded``: grants of holders that are not back, by device.
    """
    core = Core(Settings(Policy.EXCLUSIVE, QUANTUM, GRACE))
    for device in range(DEVICES):
        core.handle(DeviceSeen(name(device), 0), 0.0)
    for device, grant in (recorded or {}).items():
        core.handle(HolderRecorded(name(device), grant), 0.0)
    for device in reversed(range(DEVICES)):
        for client in (holder(device), waiter(device)):
            core.handle(ClientRegistered(client, name(device), 0, ClaimedState.IDLE), 0.0)
            core.handle(LockRequested(client), 0.0)
    return core


def test_actions_come_in_the_order_of_the_devices() -> None:
    """What is due at once is done device by device, in the order in which they were first seen: quantum, then grace."""
    core = waiting_everywhere()
    revokes = core.handle_timer(QUANTUM)
    assert [(type(action), action.client) for action in revokes] == [(Revoke, holder(each)) for each in range(DEVICES)]
    reports = core.handle_timer(QUANTUM + GRACE)
    expected = [(ReportUnresponsive, holder(each)) for each in range(DEVICES)]
    assert [(type(action), action.client) for action in reports] == expected


def test_order_after_deadlines_came_and_went() -> None:
    """A device whose deadline is newer than the others' still comes in its place."""
    core = waiting_everywhere()
    early = DEVICES // 2
    # The devices were used in the reverse order, so this is the grant of its holder.
    core.handle(LockReleased(holder(early), DEVICES - early), 0.0)
    core.handle(LockRequested(holder(early)), 0.0)
    expected = [waiter(each) if each == early else holder(each) for each in range(DEVICES)]
    assert [action.client for action in core.handle_timer(QUANTUM)] == expected


def test_grants_after_recovery_count_up_from_all_recorded_ones() -> None:
    """Whatever device they were recorded for; a device without recorded holders does not wait for others."""
    first, last = 0, DEVICES - 1
    core = waiting_everywhere({first: 700, last: 40})
    assert core.handle(HolderDied(700), 1.0)[0] == Grant(holder(first), 700 + DEVICES - 1)
    assert core.handle(HolderDied(40), 1.0)[0] == Grant(holder(last), 700 + DEVICES)

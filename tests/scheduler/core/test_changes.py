"""The operator changes policy and quantum; everyone-runs; several devices; what snapshots show."""

from __future__ import annotations

from nvshare.scheduler.core.actions import Grant, TellWaiters
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    LockRequested,
    Policy,
    PolicySet,
    QuantumSet,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, Line, ShownState, Totals, Turn
from tests.scheduler.core.transcript import DEVICE, GIB, number, replay


def test_under_off_everybody_runs() -> None:
    """Neither memory nor others count."""
    replay(
        """
        0    device 16
        0    A comes 16
        0    B comes ?
        0    A asks            -> grant A
        1    B asks            -> grant B
        99   A releases
        """,
        Policy.OFF,
    )


def test_from_exclusive_to_auto() -> None:
    """Waiters that fit come in at once, and the holder hears that nobody waits for it any more."""
    replay("""
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 8
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        3    policy auto       -> grant B, grant C, waiters A 0
    """)


def test_from_exclusive_to_off() -> None:
    """Everybody who waits is granted, one that was asked to leave may come back at once."""
    replay("""
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 12
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        30   timer             -> revoke A
        31   policy off        -> grant B, grant C
        32   A releases
        32   A asks            -> grant A
    """)


def test_from_auto_to_exclusive() -> None:
    """At most one holder must come true although nobody waits: all but the one that has held longest are revoked."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 4
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> grant C
        3    policy exclusive  -> revoke C, revoke B
        4    B releases
        4    B asks            -> waiters A 1
        5    C releases
        30   timer             -> revoke A
        30   A releases        -> grant B
        """,
        Policy.AUTO,
    )


def test_a_new_quantum_counts_for_the_present_turn() -> None:
    """A longer one puts the end off, a shorter one may end the turn at once."""
    replay("""
        0    device 16
        0    A comes 4
        0    B comes 4
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    quantum 60
        31   B has 5
        40   quantum 50
        45   quantum 40        -> revoke A
    """)


def test_devices_do_not_know_of_each_other() -> None:
    """A choice for one device leaves the other alone; a choice for all counts for those to come."""
    core = Core(Settings(policy=Policy.EXCLUSIVE))
    for device in ("GPU-a", "GPU-b"):
        core.handle(DeviceSeen(device, 16 * GIB), 0.0)
    for client, device in enumerate(("GPU-a", "GPU-a", "GPU-b", "GPU-b")):
        core.handle(ClientRegistered(client, device, GIB, ClaimedState.IDLE), 0.0)
    assert core.handle(LockRequested(0), 0.0) == [Grant(0, 1)]
    assert core.handle(LockRequested(2), 0.0) == [Grant(2, 2)]
    assert core.handle(LockRequested(1), 1.0) == [TellWaiters(0, 1, 0.02)]
    assert core.handle(LockRequested(3), 1.0) == [TellWaiters(2, 1, 0.02)]
    assert core.handle(QuantumSet(5.0, "GPU-b"), 1.0) == []
    assert core.deadline() == 5.0
    assert core.handle(PolicySet(Policy.OFF, "GPU-a"), 1.0) == [Grant(1, 3), TellWaiters(0, 0, 0.0)]
    core.handle(DeviceSeen("GPU-c", 16 * GIB), 1.0)
    assert [(device.policy, device.quantum_seconds) for device in core.snapshot(1.0)] == [
        (Policy.OFF, 30.0),
        (Policy.EXCLUSIVE, 5.0),
        (Policy.EXCLUSIVE, 30.0),
    ]
    core.handle(QuantumSet(7.0), 1.0)
    core.handle(PolicySet(Policy.AUTO), 1.0)
    core.handle(DeviceSeen("GPU-d", 16 * GIB), 1.0)
    assert [(device.policy, device.quantum_seconds) for device in core.snapshot(1.0)] == [(Policy.AUTO, 7.0)] * 4


def test_a_snapshot_shows_turns_and_times() -> None:
    """Times run on in the present state and are kept when it ends; a holder that was asked to leave still holds."""
    core = replay("""
        0    device 16 foreign 2
        0    A comes 4
        0    B comes ?
        0    C comes 1
        0    A asks            -> grant A
        10   B asks            -> waiters A 1
        12   C pins 0.5
    """)
    assert core.snapshot(20.0) == (
        DeviceSnapshot(
            device=DEVICE,
            total_bytes=16 * GIB,
            foreign_bytes=2 * GIB,
            policy=Policy.EXCLUSIVE,
            quantum_seconds=30.0,
            quantum_left_seconds=10.0,
            recovering=False,
            clients=(
                ClientSnapshot(number("A"), ShownState.HOLDING, 4 * GIB, 0, False, 20.0, 0.0, 1),
                ClientSnapshot(
                    number("B"),
                    ShownState.WAITING,
                    None,
                    0,
                    False,
                    0.0,
                    10.0,
                    0,
                    Line(1, 1, 10.0, (Turn(number("A"), 20.0),), recovering=False),
                ),
                ClientSnapshot(number("C"), ShownState.IDLE, GIB, GIB // 2, True, 0.0, 0.0, 0),
            ),
            totals=Totals(grants=1, held_seconds=20.0, waited_seconds=10.0),
        ),
    )
    core.handle_timer(30.0)
    (device,) = core.snapshot(35.0)
    assert device.quantum_left_seconds is None
    assert [client.state for client in device.clients] == [ShownState.LEAVING, ShownState.WAITING, ShownState.IDLE]
    core.handle_timer(40.0)
    (device,) = core.snapshot(45.0)
    assert device.clients[0].state is ShownState.UNRESPONSIVE
    assert (device.clients[0].held_seconds, device.clients[1].waited_seconds) == (45.0, 35.0)
    core.handle(ClientGone(number("A")), 50.0)
    (device,) = core.snapshot(55.0)
    assert device.totals == Totals(grants=2, revokes=1, unresponsive=1, held_seconds=55.0, waited_seconds=40.0)


def test_a_forgotten_device() -> None:
    """Only one without clients can be forgotten; it comes back with the policy of all."""
    replay(
        """
        0   device 16
        0   A comes 4
        1   forget device       -> illegal: device GPU-a is in use
        2   A goes
        3   forget device
        4   forget device       -> illegal: device GPU-a is unknown
        5   B comes 4           -> illegal: device GPU-a is unknown
        6   device 16
        6   B comes 4
        6   B asks              -> grant B
        """
    )

"""How long it takes until a client whose process was asleep works again."""

from __future__ import annotations

from nvshare.scheduler.api.turn_times import Figure, Measured
from nvshare.scheduler.api.wake_times import WakeTimes
from nvshare.scheduler.core.actions import Grant, Sleep, Wake
from nvshare.scheduler.core.events import ClaimedState, ClientGone, ClientRegistered, LockReleased, LockRequested
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepOffered, WakeWanted, Woke

HERE, THERE = "GPU-a", "GPU-b"
A, B = 1, 2
PROCESS = 7


def seen(measured: list[Measured]) -> list[tuple[Figure, int, float]]:
    return [(each.figure, each.client, each.seconds) for each in measured]


def with_a_sleeper() -> WakeTimes:
    """A process on two devices that fell asleep as a call of it came: it had wanted to be awake before, too."""
    times = WakeTimes()
    for client, device in ((A, HERE), (B, THERE)):
        times.happened(ClientRegistered(client, device, 0, ClaimedState.IDLE), [], 0.0)
        times.happened(SleepOffered(client, PROCESS), [], 0.0)
    times.happened(WakeWanted(PROCESS), [], 1.0)
    times.happened(None, [Sleep(PROCESS, (A, B))], 2.0)
    assert times.happened(FellAsleep(PROCESS), [], 2.5) == []
    return times


def test_each_part() -> None:
    """For each device. The first call counts, not those that come while it wakes; later turns are turns."""
    times = with_a_sleeper()
    assert times.happened(WakeWanted(PROCESS), [], 10.0) == []
    assert times.happened(WakeWanted(PROCESS), [], 11.0) == []
    room = [(Figure.WAKE_ROOM, A, 2.0), (Figure.WAKE_ROOM, B, 2.0)]
    assert seen(times.happened(None, [Wake(PROCESS, (A, B))], 12.0)) == room
    context = [(Figure.WAKE_CONTEXT, A, 0.25), (Figure.WAKE_CONTEXT, B, 0.25)]
    assert seen(times.happened(Woke(PROCESS), [], 12.25)) == context
    assert times.happened(LockRequested(A), [], 13.0) == []
    assert seen(times.happened(None, [Grant(A, 1)], 13.5)) == [(Figure.WAKE_DATA, A, 0.5)]
    times.happened(LockReleased(A, 1), [], 14.0)
    assert times.happened(LockRequested(A), [Grant(A, 2)], 15.0) == []


def test_who_wakes_without_a_call() -> None:
    """The operator waited for nothing; and who ends is forgotten."""
    times = with_a_sleeper()
    assert times.happened(None, [Wake(PROCESS, (A, B))], 12.0) == []
    times.happened(ClientGone(B), [], 12.1)
    assert seen(times.happened(Woke(PROCESS), [], 12.5)) == [(Figure.WAKE_CONTEXT, A, 0.5)]

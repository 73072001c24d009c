"""How long clients wait, hold and drain, and how long a hand-over takes: as figures, and as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from nvshare.protocol import wire
from nvshare.scheduler.api.histograms import TurnHistograms
from nvshare.scheduler.api.turn_times import Figure, Measured, TurnTimes
from nvshare.scheduler.core.actions import Grant, Revoke
from nvshare.scheduler.core.events import ClaimedState, ClientGone, ClientRegistered, LockReleased, LockRequested
from nvshare.scheduler.pods.identity import Identity, Source
from tests.polling import poll_until
from tests.scheduler.api.pages import figures
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler

DEVICE = "GPU-a"
A, B, C = 1, 2, 3


def come(client: int, claimed: ClaimedState = ClaimedState.IDLE) -> ClientRegistered:
    return ClientRegistered(client, DEVICE, 0, claimed)


def seen(measured: list[Measured]) -> list[tuple[Figure, int, float]]:
    return [(each.figure, each.client, each.seconds) for each in measured]


def with_clients(*clients: int) -> TurnTimes:
    """Nobody has asked for anything yet."""
    times = TurnTimes()
    for client in clients:
        assert times.happened(come(client), [], 0.0) == []
    return times


def test_a_turn_that_is_revoked() -> None:
    """The hand-over begins with DROP_LOCK, as the drain does."""
    times = with_clients(A, B)
    assert seen(times.happened(LockRequested(A), [Grant(A, 1)], 1.0)) == [(Figure.WAIT, A, 0.0)]
    assert seen(times.happened(LockRequested(B), [], 5.0)) == []
    assert seen(times.happened(None, [Revoke(A, 1)], 31.0)) == []
    assert seen(times.happened(LockReleased(A, 1), [Grant(B, 2)], 31.5)) == [
        (Figure.TURN, A, 30.5),
        (Figure.DRAIN, A, 0.5),
        (Figure.WAIT, B, 26.5),
        (Figure.HAND_OVER, B, 0.5),
    ]


def test_a_turn_that_is_given_up() -> None:
    """Released because it was idle: nothing was drained at the scheduler's wish, and the hand-over takes no time."""
    times = with_clients(A, B)
    times.happened(LockRequested(A), [Grant(A, 1)], 1.0)
    times.happened(LockRequested(B), [], 5.0)
    assert seen(times.happened(LockReleased(A, 1), [Grant(B, 2)], 6.0)) == [
        (Figure.TURN, A, 5.0),
        (Figure.WAIT, B, 1.0),
        (Figure.HAND_OVER, B, 0.0),
    ]


def test_a_lock_that_nobody_waited_for() -> None:
    """Neither the time in which nobody wanted the lock nor a grant beside a holder is a hand-over."""
    times = with_clients(A, B, C)
    times.happened(LockRequested(A), [Grant(A, 1)], 1.0)
    times.happened(LockReleased(A, 1), [], 2.0)
    assert seen(times.happened(LockRequested(B), [Grant(B, 2)], 9.0)) == [(Figure.WAIT, B, 0.0)]
    assert seen(times.happened(LockRequested(C), [Grant(C, 3)], 10.0)) == [(Figure.WAIT, C, 0.0)]


def test_two_leave_for_one() -> None:
    """The hand-over begins when the first of them was asked to leave, and there is one."""
    times = with_clients(A, B, C)
    times.happened(LockRequested(A), [Grant(A, 1)], 1.0)
    times.happened(LockRequested(B), [Grant(B, 2)], 1.0)
    times.happened(LockRequested(C), [], 2.0)
    times.happened(None, [Revoke(A, 1), Revoke(B, 2)], 31.0)
    assert seen(times.happened(LockReleased(A, 1), [], 31.25)) == [(Figure.TURN, A, 30.25), (Figure.DRAIN, A, 0.25)]
    assert seen(times.happened(LockReleased(B, 2), [Grant(C, 3)], 33.0))[2:] == [
        (Figure.WAIT, C, 31.0),
        (Figure.HAND_OVER, C, 2.0),
    ]


def test_a_holder_that_dies() -> None:
    """Its turn ends with it; it drained nothing."""
    times = with_clients(A, B)
    times.happened(LockRequested(A), [Grant(A, 1)], 1.0)
    times.happened(LockRequested(B), [], 2.0)
    times.happened(None, [Revoke(A, 1)], 31.0)
    assert seen(times.happened(ClientGone(A), [Grant(B, 2)], 32.0)) == [
        (Figure.TURN, A, 31.0),
        (Figure.WAIT, B, 30.0),
        (Figure.HAND_OVER, B, 1.0),
    ]


def test_a_turn_of_another_scheduler() -> None:
    """When a turn began that a client brings along is not known; when it is asked to leave is. A waiter waits anew."""
    times = TurnTimes()
    times.happened(come(A, ClaimedState.HOLDING), [], 0.0)
    times.happened(come(B, ClaimedState.WAITING), [], 1.0)
    times.happened(None, [Revoke(A, 7)], 31.0)
    assert seen(times.happened(LockReleased(A, 7), [Grant(B, 8)], 31.5)) == [
        (Figure.DRAIN, A, 0.5),
        (Figure.WAIT, B, 30.5),
        (Figure.HAND_OVER, B, 0.5),
    ]


def test_released_twice() -> None:
    """A release that crossed the wish to have the lock back is followed by a second one, which ends nothing."""
    times = with_clients(A)
    times.happened(LockRequested(A), [Grant(A, 1)], 1.0)
    times.happened(LockReleased(A, 1), [], 2.0)
    assert times.happened(LockReleased(A, 1), [], 3.0) == []


class Pods:
    """Clients in pods, and histograms of them."""

    def __init__(self) -> None:
        self.clients: dict[int, Any] = {}
        self.now = 0.0
        self.histograms = TurnHistograms(lambda: self.clients, lambda: self.now)
        self.registry = CollectorRegistry()
        for histogram in self.histograms.histograms.values():
            self.registry.register(histogram)

    def client(self, number: int, identity: Identity) -> None:
        """A client that has had a turn."""
        self.clients[number] = SimpleNamespace(
            device=DEVICE, account="", description=SimpleNamespace(identity=Identity())
        )
        self.histograms.happened(come(number), [], self.now)
        self.histograms.happened(LockRequested(number), [Grant(number, number)], self.now)
        # Who it is becomes known a moment later.
        self.clients[number].description.identity = identity

    def end(self, number: int) -> None:
        """A client is gone."""
        self.histograms.happened(ClientGone(number), [], self.now)
        del self.clients[number]

    def places(self) -> dict[str, float]:
        """How many waits were counted for whom."""
        self.histograms.bring_up_to_date()
        lines = generate_latest(self.registry).decode().splitlines()
        counts = (line.rpartition(" ") for line in lines if line.startswith("nvshare_wait_seconds_count"))
        return {name.partition(",")[2].rstrip("}"): float(value) for name, _, value in counts}


def test_pods_have_series_of_their_own() -> None:
    """By what the kernel says; what a client says of itself makes no series."""
    pods = Pods()
    pods.client(A, Identity("space", "pod-1", "main", Source.KERNEL))
    pods.client(B, Identity("space", "invented", "", Source.HINT))
    pods.client(C, Identity())
    found = pods.places()
    assert [count for place, count in found.items() if 'pod="pod-1"' in place] == [1]
    assert [count for place, count in found.items() if 'pod=""' in place] == [2]


def test_series_of_a_pod_that_is_gone() -> None:
    """They stay for the next scrapes, and are removed then; those of pods that are there stay."""
    pods = Pods()
    for number in (A, B):
        pods.client(number, Identity("space", f"pod-{number}", "main", Source.KERNEL))
    pods.end(A)
    pods.now = 299.0
    assert len(pods.places()) == 2
    pods.now = 301.0
    (left,) = pods.places()
    assert 'pod="pod-2"' in left


def test_number_of_series_is_bounded() -> None:
    """However many pods come, what more of them do is counted without their names."""
    pods = Pods()
    for number in range(1, 701):
        pods.client(number, Identity("space", f"pod-{number}", "main", Source.KERNEL))
        pods.end(number)
    places = pods.places()
    assert len(places) == 501
    assert [count for place, count in places.items() if 'pod=""' in place] == [200]


def test_a_real_hand_over(serve: Callable[..., Scheduler]) -> None:
    """What a scheduler's clients did is in its /metrics."""
    scheduler = serve("--metrics-address=127.0.0.1:0", "--policy", "exclusive", "--quantum", "0.01")
    first, second = (scheduler.client().register() for _ in range(2))
    grant = first.lock()
    second.send(wire.ReqLock())
    first.expect_drop()
    first.send(wire.LockReleased(grant))
    second.expect(wire.LockOk)
    device = "GPU-6e767368-6172-6500-0000-000000000001"
    of_nobody = f'{{container="",gpu="{device}",namespace="",pod=""}}'

    def counts() -> dict[str, float]:
        shown = figures(scheduler)
        wanted = (figure.value for figure in Figure)
        return {name: shown.get(f"nvshare_{name}_seconds_count{of_nobody}", 0) for name in wanted}

    expected = dict.fromkeys((figure.value for figure in Figure), 0)
    expected |= {"wait": 2, "turn": 1, "drain": 1, "hand_over": 1}
    poll_until(lambda: counts() == expected, f"the counts are {expected}", TIMEOUT_SECONDS)

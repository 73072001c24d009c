"""The timeline: what happened of late, from what the core is told and says, and over the admin API."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.protocol import wire
from nvshare.scheduler.api.timeline import Person, Span, Timeline, What
from nvshare.scheduler.core.actions import Action, Grant, Revoke, Sleep, Wake
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    Event,
    LockReleased,
    LockRequested,
    ResidencyReported,
)
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepOffered, StayedAwake, WakeWanted, Woke
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler

A, B = 1, 2
MIB = 1 << 20


def registered(*clients: int) -> dict[int, Any]:
    """What a timeline reads of the clients."""
    return {
        number: SimpleNamespace(device="GPU-a", description=SimpleNamespace(pid=100 + number, command=f"job {number}"))
        for number in clients
    }


def follow(timeline: Timeline, *happened: tuple[float, Event | None, list[Action]]) -> None:
    for now, event, actions in happened:
        timeline.happened(event, actions, now)


def come(client: int, claimed: ClaimedState = ClaimedState.IDLE, grant: int = 0) -> ClientRegistered:
    return ClientRegistered(client, "GPU-a", 0, claimed, grant, backend=Backend.SWAP)


def report(client: int, footprint: int, out: int) -> ResidencyReported:
    return ResidencyReported(client, 0, footprint * MIB, (footprint - out) * MIB, out_bytes=out * MIB)


def test_who_they_are() -> None:
    """A client is called what the container is called where it was last, also when it is gone."""
    timeline = Timeline(lambda: registered(A, B))
    follow(
        timeline,
        (0.0, come(A), []),
        (0.0, come(B), []),
        (0.5, ContainerFound(A, "pid:101@0", Terms()), []),
        (0.6, ContainerFound(A, "train@0", Terms()), []),
        (1.0, LockRequested(A), [Grant(A, 1)]),
        (2.0, ClientGone(A), []),
    )
    assert timeline.people({A, B}) == [
        Person(A, "GPU-a", 101, "job 1", "train@0"),
        Person(B, "GPU-a", 102, "job 2", ""),
    ]


def test_turns_and_waits() -> None:
    """Each state of a client is a span; what goes on ends now; a crossed release of an old grant ends nothing."""
    timeline = Timeline(lambda: registered(A, B))
    follow(
        timeline,
        (0.0, come(A), []),
        (0.0, come(B), []),
        (1.0, LockRequested(A), [Grant(A, 1)]),
        (2.0, LockRequested(B), []),
        (5.0, None, [Revoke(A, 1)]),
        (6.0, LockReleased(A, 1), [Grant(B, 2)]),
        (7.0, LockReleased(B, 1), []),
    )
    assert list(timeline.spans(0.0, 9.0)) == [
        Span(A, What.WAITING, 1.0, 1.0),
        Span(A, What.HOLDING, 1.0, 5.0),
        Span(A, What.LEAVING, 5.0, 6.0),
        Span(B, What.WAITING, 2.0, 6.0),
        Span(B, What.HOLDING, 6.0, 9.0),
    ]
    assert [span.what for span in timeline.spans(5.5, 9.0)] == [What.LEAVING, What.WAITING, What.HOLDING]


def test_claims_count_from_the_registration() -> None:
    """Who comes back in a state is in it from then on."""
    timeline = Timeline(lambda: registered(A, B))
    follow(timeline, (3.0, come(A, ClaimedState.HOLDING, 7), []), (4.0, come(B, ClaimedState.WAITING), []))
    follow(timeline, (5.0, LockReleased(A, 7), []))
    assert list(timeline.spans(0.0, 6.0)) == [Span(A, What.HOLDING, 3.0, 5.0), Span(B, What.WAITING, 4.0, 6.0)]


def test_memory_that_moves() -> None:
    """Reports in quick succession are one move; what is freed meanwhile did not move; a later move is another one."""
    timeline = Timeline(lambda: registered(A))
    follow(
        timeline,
        (0.0, come(A), []),
        (1.0, report(A, 256, 0), []),
        (5.0, report(A, 256, 64), []),
        (5.1, report(A, 256, 192), []),
        (9.0, report(A, 192, 128), []),
        (9.1, report(A, 192, 64), []),
    )
    assert list(timeline.spans(0.0, 10.0)) == [
        Span(A, What.OUT, 4.75, 5.1, 192 * MIB),
        Span(A, What.IN, 9.0, 9.1, 64 * MIB),
    ]


def test_who_is_gone_is_remembered() -> None:
    """With its spans, under its own name."""
    clients = registered(A, B)
    timeline = Timeline(lambda: clients)
    follow(timeline, (0.0, come(A), []), (1.0, LockRequested(A), [Grant(A, 1)]), (2.0, ClientGone(A), []))
    del clients[A]
    [*_, held] = timeline.spans(0.0, 9.0)
    assert held == Span(A, What.HOLDING, 1.0, 2.0)
    assert [(person.pid, person.command) for person in timeline.people({A})] == [(101, "job 1")]


def test_the_oldest_are_forgotten() -> None:
    """However long a scheduler runs, it keeps so many and no more."""
    timeline = Timeline(lambda: registered(A), kept=10)
    follow(timeline, (0.0, come(A), []))
    for number in range(1, 100):
        follow(timeline, (float(number), LockRequested(A), [Grant(A, number)]))
        follow(timeline, (number + 0.5, LockReleased(A, number), []))
    found = list(timeline.spans(0.0, 200.0))
    assert len(found) == 10
    assert found[-1] == Span(A, What.HOLDING, 99.0, 99.5)


def test_over_the_api(serve: Callable[..., Scheduler]) -> None:
    """A client's turn and another one's wait are told, with who they are."""
    scheduler = serve("--policy", "exclusive", "--quantum", "600")
    holder, waiter = scheduler.client().register(), scheduler.client().register()
    holder.lock()
    waiter.send(wire.ReqLock())
    holder.expect(wire.Waiters)
    seen = scheduler.admin.GetTimeline(admin_pb2.GetTimelineRequest(seconds=60))
    assert [device.uuid for device in seen.devices] == [seen.clients[0].device_uuid]
    doing = {client.id: client.spans[-1].what for client in seen.clients}
    assert doing == {holder.client_id: "holding", waiter.client_id: "waiting"}
    assert 0 < seen.seconds < 60
    assert all(0 <= span.begin <= span.end <= seen.seconds + 1e-6 for client in seen.clients for span in client.spans)


def test_over_the_api_for_everybody(serve: Callable[..., Scheduler]) -> None:
    """Who asks again and again takes a small part of the scheduler's time, and is told what it was told before."""
    scheduler = serve()
    client = scheduler.client().register()
    for _ in range(3000):
        client.send(wire.LockReleased(client.lock()))
    with grpc.insecure_channel(f"unix:{scheduler.run_dir.status_socket}") as channel:

        def ask(seconds: float) -> admin_pb2.Timeline:
            request = admin_pb2.GetTimelineRequest(seconds=seconds)
            return AdminStub(channel).GetTimeline(request, timeout=TIMEOUT_SECONDS)

        first = ask(3000)
        assert ask(3000) == first
        began, worked = time.monotonic(), processor_seconds(scheduler)
        for seconds in (3001, 3002, 3003):
            assert len(ask(seconds).clients[0].spans) >= len(first.clients[0].spans)
        share = (processor_seconds(scheduler) - worked) / (time.monotonic() - began)
    assert share < 0.3


def processor_seconds(scheduler: Scheduler) -> float:
    """That it has used."""
    fields = Path(f"/proc/{scheduler.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("seconds", [0.0, -1.0, 86401.0, float("nan"), float("inf")])
def test_lengths_that_make_no_sense(serve: Callable[..., Scheduler], seconds: float) -> None:
    """They are refused with what is allowed."""
    scheduler = serve()
    with pytest.raises(grpc.RpcError) as failed:
        scheduler.admin.GetTimeline(admin_pb2.GetTimelineRequest(seconds=seconds))
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "more than 0 and up to 86400" in str(failed.value.details())


def test_sleep() -> None:
    """From the moment the driver is told until the door is open; what it waited for before that it waits for again."""
    timeline = Timeline(lambda: registered(A, B))
    follow(
        timeline,
        (0.0, come(A), []),
        (0.0, come(B), []),
        (0.0, SleepOffered(A, 7), []),
        (1.0, None, [Sleep(7, (A,))]),
        (1.5, FellAsleep(7), []),
    )
    assert [timeline.asleep_seconds(client, 4.0) for client in (A, B)] == [3.0, 0.0]
    follow(timeline, (5.0, WakeWanted(7), []), (5.5, LockRequested(A), []), (6.0, None, [Wake(7, (A,))]))
    assert timeline.asleep_seconds(A, 7.0) == 2.0
    follow(timeline, (8.0, Woke(7), []), (9.0, None, [Grant(A, 1)]))
    assert timeline.asleep_seconds(A, 9.0) == 0.0
    assert list(timeline.spans(0.0, 10.0)) == [
        Span(A, What.ASLEEP, 1.0, 5.0),
        Span(A, What.WAKING, 5.0, 8.0),
        Span(A, What.WAITING, 8.0, 9.0),
        Span(A, What.HOLDING, 9.0, 10.0),
    ]


def test_who_stays_awake_or_comes_asleep() -> None:
    """That it was tried is seen; one that slept under another scheduler sleeps on. A wish changes no waking process."""
    timeline = Timeline(lambda: registered(A, B))
    follow(
        timeline,
        (0.0, come(A), []),
        (0.0, come(B, ClaimedState.WAITING), []),
        (0.0, SleepOffered(A, 7), []),
        (0.0, SleepOffered(B, 8), [Sleep(7, (A,))]),
        (1.0, StayedAwake(7, "a thread of it is in the driver"), []),
        (2.0, WakeWanted(7), []),
        (3.0, FellAsleep(8), []),
        (4.0, WakeWanted(8), [Wake(8, (B,))]),
        (5.0, Woke(8), []),
    )
    assert list(timeline.spans(0.0, 6.0)) == [
        Span(A, What.ASLEEP, 0.0, 1.0),
        Span(B, What.WAITING, 0.0, 3.0),
        Span(B, What.ASLEEP, 3.0, 4.0),
        Span(B, What.WAKING, 4.0, 5.0),
        Span(B, What.WAITING, 5.0, 6.0),
    ]

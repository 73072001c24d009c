"""Descriptors that go from one client to another, and clients that send what they must not."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler, WireClient

KEY = bytes([3] * 32)


@pytest.fixture
def scheduler(serve: Callable[..., Scheduler]) -> Scheduler:
    """A scheduler."""
    return serve()


@pytest.fixture
def descriptor() -> Iterator[int]:
    """Something to send."""
    made = os.memfd_create("given")
    yield made
    os.close(made)


def send_with(client: WireClient, frame: wire.Frame, *descriptors: int) -> None:
    """Sends a frame with descriptors."""
    socket.send_fds(client.raw.socket, [wire.encode(frame)], list(descriptors))


def files(scheduler: Scheduler) -> int:
    """How many the scheduler has open."""
    return len(list(Path(f"/proc/{scheduler.process.pid}/fd").iterdir()))


def pair(scheduler: Scheduler) -> tuple[WireClient, WireClient]:
    """One that gives KEY, and another one."""
    giver, taker = scheduler.client().register(), scheduler.client().register()
    giver.send(wire.Share(KEY))
    return giver, taker


def test_a_descriptor_goes_on(scheduler: Scheduler, descriptor: int) -> None:
    """What the giver sends the taker gets: the same file, with what was said of it; the scheduler keeps nothing."""
    giver, taker = pair(scheduler)
    before = files(scheduler)
    for index in range(20):
        taker.send(wire.OpenShared(5 + index, KEY, index))
        asked = giver.expect(wire.AskShared)
        assert (asked.key, asked.index) == (KEY, index)
        send_with(giver, wire.Shared(asked.request, index, 20, 4096, 512), descriptor)
        assert taker.expect(wire.Shared) == wire.Shared(5 + index, index, 20, 4096, 512)
        assert os.path.sameopenfile(taker.raw.descriptors[-1], descriptor)
    assert len(taker.raw.descriptors) == 20
    poll_until(lambda: files(scheduler) == before, "nothing is kept")


def test_nobody_asked_for_it(scheduler: Scheduler, descriptor: int) -> None:
    """Who sends a descriptor unasked is disconnected, whatever the frame, before and after REGISTER."""
    before = files(scheduler)
    for client, frame in (
        (scheduler.client(), wire.Register(bytes(16), 1)),
        (scheduler.client().register(), wire.AskReason()),
        (scheduler.client().register(), wire.Shared(1, 0, 1, 4096)),
    ):
        send_with(client, frame, descriptor)
        client.raw.wait_closed()
    assert {line["reason"] for line in scheduler.logged("peer disconnected")} == {
        "it sent a descriptor that nobody asked for"
    }
    poll_until(lambda: files(scheduler) == before, "nothing is kept")


@pytest.mark.parametrize("several", [2, 200])
def test_more_than_one(scheduler: Scheduler, descriptor: int, several: int) -> None:
    """For one request there is one descriptor: who sends more is disconnected, and who waits hears that it is gone."""
    giver, taker = pair(scheduler)
    before = files(scheduler)
    taker.send(wire.OpenShared(1, KEY, 0))
    asked = giver.expect(wire.AskShared)
    send_with(giver, wire.Shared(asked.request, 0, 1, 4096), *[descriptor] * several)
    giver.raw.wait_closed()
    assert "ended" in taker.expect(wire.NotShared).text
    poll_until(lambda: files(scheduler) <= before - 1, "nothing is kept but one connection")


def test_a_flood_beside_a_request(scheduler: Scheduler, descriptor: int) -> None:
    """One after the other, in frames of other kinds, they end the connection as well."""
    giver, taker = pair(scheduler)
    before = files(scheduler)
    taker.send(wire.OpenShared(1, KEY, 0))
    giver.expect(wire.AskShared)
    try:
        for _ in range(100):
            send_with(giver, wire.Notice("x"), descriptor)
    except OSError:
        pass
    giver.raw.wait_closed()
    assert "ended" in taker.expect(wire.NotShared).text
    poll_until(lambda: files(scheduler) <= before - 1, "nothing is kept but one connection")


def test_frames_that_are_wrong(scheduler: Scheduler) -> None:
    """An answer without a descriptor, one to no request, a frame of schedulers, and any of them before REGISTER."""
    giver, taker = pair(scheduler)
    taker.send(wire.OpenShared(1, KEY, 0))
    giver.send(wire.Shared(giver.expect(wire.AskShared).request, 0, 1, 4096))
    giver.raw.wait_closed()
    for frame in (wire.NotShared(1, "x"), wire.AskShared(1, KEY, 0)):
        client = scheduler.client().register()
        client.send(frame)
        client.raw.wait_closed()
    stranger = scheduler.client()
    stranger.send(wire.Share(KEY))
    stranger.raw.wait_closed()
    assert "ended" in taker.expect(wire.NotShared).text


def test_a_taker_that_does_not_read(scheduler: Scheduler, descriptor: int) -> None:
    """What it asked for and does not take is closed with its connection."""
    giver, taker = pair(scheduler)
    before = files(scheduler)
    for request in range(16):
        taker.send(wire.OpenShared(request, KEY, 0))
    for _ in range(16):
        send_with(giver, wire.Shared(giver.expect(wire.AskShared).request, 0, 1, 4096), descriptor)
    taker.raw.socket.close()
    poll_until(lambda: files(scheduler) <= before - 1, "nothing is kept but one connection")


def test_asked_without_end(scheduler: Scheduler) -> None:
    """Who asks for more at a time than is allowed is refused each of them, and everybody else is served."""
    giver, taker = pair(scheduler)
    for request in range(200):
        taker.send(wire.OpenShared(request, KEY, 0))
    assert [taker.expect(wire.NotShared).request for _ in range(184)] == list(range(16, 200))
    third = scheduler.client().register()
    third.send(wire.OpenShared(1, KEY, 0))
    for _ in range(17):
        giver.send(wire.NotShared(giver.expect(wire.AskShared).request, "no"))
    assert third.expect(wire.NotShared).text == "no"

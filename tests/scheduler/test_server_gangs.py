"""Gangs at a real server: frames of clients that are tied, and what the scheduler answers."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nvshare.protocol import gang, wire
from nvshare.protocol.layout import ffi
from tests.polling import poll_until
from tests.scheduler.wire_client import (
    DEVICE,
    GIB,
    OTHER_DEVICE,
    TIMEOUT_SECONDS,
    ClosedError,
    FrameT,
    Scheduler,
    WireClient,
)

KEY = bytes(range(32))
NAME = b"trainer".ljust(32, b"\0")


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    with Scheduler(tmp_path / "run", "--policy", "exclusive", "--quantum", "0.2") as running:
        yield running


def registered(scheduler: Scheduler, device: bytes = DEVICE) -> WireClient:
    return scheduler.client().register(device_uuid=device)


def later(client: WireClient, kind: type[FrameT]) -> FrameT:
    """Its next frame of that kind; others are passed over."""
    while not isinstance(frame := client.receive(), kind):
        pass
    return frame


def joined(
    scheduler: Scheduler, key: bytes = KEY, tie: wire.Tie = wire.Tie.COLLECTIVE
) -> tuple[WireClient, WireClient]:
    """A gang of two on two devices that knows of it."""
    clients = registered(scheduler), registered(scheduler, OTHER_DEVICE)
    # By name processes are counted, and these are one.
    size = 0 if tie is wire.Tie.NAME else 2
    clients[0].send(wire.Join(1, key, tie, size))
    assert clients[0].expect(wire.Joined).request == 1
    clients[1].send(wire.Join(5, key, tie, size))
    pages = set()
    for slot, client in enumerate(clients):
        assert client.expect(wire.Gang) == wire.Gang(slot, 2, gang.PAGE_BYTES)
        page = os.fstat(client.raw.descriptors[-1])
        assert page.st_size == gang.PAGE_BYTES
        pages.add((page.st_dev, page.st_ino))
    assert clients[1].expect(wire.Joined).request == 5
    assert len(pages) == 1
    return clients


@pytest.mark.parametrize(("key", "tie"), [(KEY, wire.Tie.COLLECTIVE), (KEY, wire.Tie.MEMORY), (NAME, wire.Tie.NAME)])
def test_a_gang_gets_its_page_and_both_devices(scheduler: Scheduler, key: bytes, tie: wire.Tie) -> None:
    """Whatever ties them: both get the same page, and when one asks both get the lock."""
    first, second = joined(scheduler, key, tie)
    first.send(wire.ReqLock())
    assert {first.expect(wire.LockOk).grant, second.expect(wire.LockOk).grant} == {1, 2}
    second.send(wire.ReqLock())
    shown = [client.gang for device in scheduler.status().devices for client in device.clients]
    assert [(each.name, each.members, each.size) for each in shown] == [
        ("trainer" if tie is wire.Tie.NAME else "gang 1", 2, 2)
    ] * 2


def test_a_lock_is_in_the_page_before_the_client_hears_of_it(scheduler: Scheduler) -> None:
    """The others act on it already; a client that is in no gang has no page."""
    clients = joined(scheduler)
    page = mmap.mmap(clients[0].raw.descriptors[-1], gang.PAGE_BYTES)
    granted = ffi.from_buffer("struct nvs_gang_page *", page).granted
    other = registered(scheduler)
    for turn in (1, 2):
        clients[0].send(wire.ReqLock())
        grants = [later(client, wire.LockOk).grant for client in clients]
        assert list(granted)[:3] == [turn, turn, 0]
        other.send(wire.ReqLock())
        for client, grant in zip(clients, grants, strict=True):
            later(client, wire.DropLock)
            client.send(wire.LockReleased(grant))
        other.send(wire.LockReleased(later(other, wire.LockOk).grant))


def test_a_gang_waits_for_its_last_device_and_says_so(scheduler: Scheduler) -> None:
    """One device is free and one is held: nobody of the gang is granted, then both, at once."""
    holder = registered(scheduler, OTHER_DEVICE)
    holder.lock()
    first, second = joined(scheduler)
    first.send(wire.ReqLock())
    first.send(wire.AskReason())
    text = first.expect(wire.Reason).text
    assert text.startswith("its gang of 2 waits for GPU-6e767368, which ")
    assert text.endswith(" holds")
    # It is told of those that wait before, unless its quantum was over when they came.
    grant = later(holder, wire.DropLock).grant
    assert first.has_nothing()
    holder.send(wire.LockReleased(grant))
    first.expect(wire.LockOk)
    second.expect(wire.LockOk)


def test_a_gang_leaves_as_one(scheduler: Scheduler) -> None:
    """Somebody waits for one device: both members are told, and both are asked to leave."""
    clients = joined(scheduler)
    clients[0].send(wire.ReqLock())
    for client in clients:
        client.expect(wire.LockOk)
    other = registered(scheduler)
    other.send(wire.ReqLock())
    for client in clients:
        assert client.expect(wire.Waiters).waiters == 1
    for client in clients:
        client.send(wire.LockReleased(client.expect(wire.DropLock).grant))
    other.expect(wire.LockOk)


def test_idleness_of_all_ends_a_turn(tmp_path: Path) -> None:
    """A gang all of whose members say that they are idle leaves long before its quantum is over."""
    with Scheduler(tmp_path / "run", "--policy", "exclusive", "--quantum", "3600") as scheduler:
        clients = joined(scheduler)
        clients[0].send(wire.ReqLock())
        for client in clients:
            client.expect(wire.LockOk)
        registered(scheduler).send(wire.ReqLock())
        for client in clients:
            client.expect(wire.Waiters)

        def revoked() -> bool:
            for client in clients:
                client.send(wire.Idle())
            try:
                return isinstance(clients[0].receive(0.02), wire.DropLock)
            except TimeoutError:
                return False

        poll_until(revoked, "the idle gang is asked to leave", TIMEOUT_SECONDS)
        clients[1].expect(wire.DropLock)


def test_who_is_left_alone_is_told(scheduler: Scheduler) -> None:
    """One leaves, or ends: the other one is in no gang any more."""
    first, second = joined(scheduler)
    first.send(wire.Leave(KEY, wire.Tie.COLLECTIVE))
    assert first.expect(wire.Gang) == wire.Gang()
    assert second.expect(wire.Gang) == wire.Gang()
    third, fourth = joined(scheduler, bytes(32))
    third.close()
    assert fourth.expect(wire.Gang) == wire.Gang()


def test_the_same_name_of_others_is_another_gang(scheduler: Scheduler) -> None:
    """A key is what its tie makes it: a name and a communicator with the same bytes tie nobody."""
    first, second = registered(scheduler), registered(scheduler, OTHER_DEVICE)
    first.send(wire.Join(1, NAME, wire.Tie.NAME))
    second.send(wire.Join(1, NAME, wire.Tie.COLLECTIVE))
    first.expect(wire.Joined)
    second.expect(wire.Joined)
    assert first.lock()
    assert second.has_nothing()


@pytest.mark.parametrize("frame", [wire.Join(1, KEY, wire.Tie.NAME), wire.Leave(KEY, wire.Tie.NAME), wire.Idle()])
def test_nothing_before_register(scheduler: Scheduler, frame: wire.Frame) -> None:
    """Who is not registered is of no gang."""
    client = scheduler.client()
    client.send(frame)
    client.raw.wait_closed()
    assert "before REGISTER" in str(scheduler.logged("peer disconnected")[0]["reason"])


def is_told_why(client: WireClient) -> bool:
    """Whether a member hears that others lack."""
    client.send(wire.AskReason())
    return client.expect(wire.Reason).text == "its gang waits for its other processes: 1 of 3 have come"


def test_a_gang_that_is_not_complete_says_so(scheduler: Scheduler) -> None:
    """Two clients of one process are one of three that must come: they wait, and are told and shown for what."""
    clients = registered(scheduler), registered(scheduler, OTHER_DEVICE)
    for client in clients:
        client.send(wire.Join(1, NAME, wire.Tie.NAME, 3))
        client.send(wire.ReqLock())
        # It is in line as soon as it is known who it is.
        poll_until(partial(is_told_why, client), "it is told why it waits")
        assert client.has_nothing()
    shown = [client for device in scheduler.status().devices for client in device.clients]
    assert [(each.state, each.gang.name, each.gang.come, each.gang.expected) for each in shown] == [
        ("waiting", "trainer", 1, 3)
    ] * 2


def test_sizes_differ(scheduler: Scheduler) -> None:
    """That is logged, with what counts."""
    first, second = registered(scheduler), registered(scheduler)
    first.send(wire.Join(1, NAME, wire.Tie.NAME, 2))
    second.send(wire.Join(1, NAME, wire.Tie.NAME, 4))
    line = scheduler.logged("processes say different sizes of their gang: what the first one said counts")[0]
    assert (line["gang"], line["said"], line["counts"], line["pid"]) == ("trainer", 4, 2, os.getpid())


@pytest.mark.parametrize("size", [1, 65, 1 << 31])
def test_a_size_that_no_gang_has(scheduler: Scheduler, size: int) -> None:
    """A peer that says it is wrong."""
    client = registered(scheduler)
    client.send(wire.Join(1, NAME, wire.Tie.NAME, size))
    client.raw.wait_closed()
    assert "a gang by name has 2 to 64 processes" in str(scheduler.logged("peer disconnected")[0]["reason"])


def test_who_was_complete_goes_on(scheduler: Scheduler) -> None:
    """The last one of a gang that was complete says so to the next scheduler, and has its turn."""
    client = registered(scheduler)
    client.send(wire.Join(1, NAME, wire.Tie.NAME, 3, was_complete=True))
    client.expect(wire.Joined)
    assert client.lock()


def test_garbage(scheduler: Scheduler) -> None:
    """An unknown tie, and a key that was never said: the peer is wrong, and the others go on."""
    first, second = joined(scheduler)
    wrong = registered(scheduler)
    frame = bytearray(wire.encode(wire.Join(1, KEY, wire.Tie.MEMORY)))
    place = bytes(frame).index(KEY) + len(KEY)
    frame[place : place + 4] = (77).to_bytes(4, "little")
    wrong.raw.send(bytes(frame))
    wrong.raw.wait_closed()
    stranger = registered(scheduler)
    stranger.send(wire.Leave(KEY, wire.Tie.COLLECTIVE))
    stranger.raw.wait_closed()
    first.send(wire.ReqLock())
    first.expect(wire.LockOk)
    second.expect(wire.LockOk)


def test_a_repeated_contradiction_does_not_fill_the_log(scheduler: Scheduler) -> None:
    """A client says another size of its gang again and again: some lines, and still one of who is wrong elsewhere."""
    first, second = registered(scheduler), registered(scheduler, OTHER_DEVICE)
    [other] = scheduler.clients_of_others(1, each=1)
    other.register(pid=0)
    says = partial(wire.Join, key=NAME, tie=wire.Tie.NAME, was_complete=True)
    first.send(says(1, size=2))
    later(first, wire.Joined)
    for number in range(1, 301):
        second.send(says(number, size=3))
        later(second, wire.Joined)
    other.send(says(1, size=4))
    later(other, wire.Joined)
    said = "processes say different sizes of their gang: what the first one said counts"
    poll_until(lambda: scheduler.logged(said)[-1]["said"] == 4, "the other process is named")
    lines = scheduler.logged(said)
    assert len(lines) < 60
    assert len(lines) + sum(int(str(line.get("lines_left_out", 0))) for line in lines) == 301


def test_keys_are_bounded(scheduler: Scheduler) -> None:
    """Who says a thousand keys is disconnected with a line that says how many it may; others are not."""
    other = registered(scheduler)
    greedy = registered(scheduler)
    taken = 0
    while taken < 1000:
        try:
            greedy.send(wire.Join(taken + 1, taken.to_bytes(32, "little"), wire.Tie.MEMORY))
            greedy.expect(wire.Joined)
        except (ClosedError, BrokenPipeError):
            break
        taken += 1
    assert taken == 256
    assert "tied by 256 keys and can't be by more" in str(scheduler.logged("peer disconnected")[0]["reason"])
    assert other.lock()


def test_a_member_comes_back(scheduler: Scheduler) -> None:
    """A holder whose connection ended registers again and joins again: the gang is whole, and nobody had to leave."""
    first, second = joined(scheduler)
    first.send(wire.ReqLock())
    grant = first.expect(wire.LockOk).grant
    second.expect(wire.LockOk)
    first.close()
    assert second.expect(wire.Gang) == wire.Gang()
    back = scheduler.client().register(state=wire.State.HOLDING, grant=grant, footprint_bytes=GIB)
    back.send(wire.Join(1, KEY, wire.Tie.COLLECTIVE, 2))
    assert back.expect(wire.Gang).slots == 2
    back.expect(wire.Joined)
    assert second.expect(wire.Gang).slots == 2
    assert set(scheduler.states().values()) == {"holding"}

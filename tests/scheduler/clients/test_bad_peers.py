"""Peers that are wrong are disconnected with one log line, and nobody else notices."""

from __future__ import annotations

import itertools
import random
import resource
import statistics
import time
from collections.abc import Callable

import pytest

from nvshare.protocol import legacy, wire
from tests.polling import poll_until
from tests.scheduler.wire_client import DEVICE, GIB, OTHER_DEVICE, ClosedError, Scheduler, WireClient

Serve = Callable[..., Scheduler]

REGISTER = wire.encode(wire.Register(DEVICE, 16 * GIB))
FALSE_CLAIM = wire.encode(wire.Register(DEVICE, GIB, wire.State.HOLDING, grant=1 << 63))


def changed(frame: bytes, offset: int, value: int) -> bytes:
    """The frame with one byte changed."""
    return frame[:offset] + bytes([value]) + frame[offset + 1 :]


def is_served(client: WireClient) -> float:
    """Takes and gives back the lock; the answer is how many seconds it took to get."""
    began = time.perf_counter()
    grant = client.lock()
    took = time.perf_counter() - began
    client.send(wire.LockReleased(grant))
    return took


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "0x47"),
        (bytes(240), "0x00"),
        (REGISTER + changed(REGISTER, 0, 1), "begins with 0xa7"),
        (changed(REGISTER, 2, 77), "frame type 77"),
        (changed(REGISTER, 3, 9), "client state 9"),
        (changed(REGISTER, 4, 9), "memory backend 9"),
        (wire.encode(wire.ReqLock()), "before REGISTER"),
        (wire.encode(wire.LockOk(1)), "only a scheduler sends"),
        (REGISTER + REGISTER, "a second time"),
        (REGISTER + 2 * wire.encode(wire.ReqLock()), "is illegal: client"),
        (REGISTER + wire.encode(wire.LockReleased(5)), "is illegal: client"),
        (FALSE_CLAIM + wire.encode(wire.LockReleased(5)), "is illegal: client"),
        (FALSE_CLAIM + wire.encode(wire.ReqLock()), "is illegal: client"),
        (legacy.encode(legacy.Message(legacy.LegacyType.REQ_LOCK)), "before REGISTER"),
        (legacy.encode(legacy.Message(legacy.LegacyType.LOCK_OK)), "only a scheduler sends"),
    ],
)
def test_wrong_message(serve: Serve, sent: bytes, reason: str) -> None:
    """Disconnected, with one line that says why; another client goes on."""
    scheduler = serve("--policy", "exclusive")
    other = scheduler.client().register(device_uuid=OTHER_DEVICE)
    bad = scheduler.client()
    bad.raw.send(sent)
    bad.raw.wait_closed()
    is_served(other)
    [line] = scheduler.logged("peer disconnected")
    assert reason in str(line["reason"])


def test_unknown_version_is_refused_with_a_text(serve: Serve) -> None:
    """A client of another version learns why it is not wanted, and so does the log."""
    scheduler = serve()
    client = scheduler.client()
    client.raw.send(changed(REGISTER, 1, 3))
    refusal = client.expect(wire.Refused)
    assert "version 3 is not supported, only 2 is" in refusal.text
    with pytest.raises(ClosedError):
        client.receive()
    [line] = scheduler.logged("peer disconnected")
    assert line["reason"] == refusal.text


def test_invented_devices_are_refused(serve: Serve) -> None:
    """A client that makes up device after device is stopped at a number that no node has."""
    scheduler = serve()
    for number in range(256):
        scheduler.client().register(device_uuid=number.to_bytes(16, "big"))
    client = scheduler.client()
    client.send(wire.Register((256).to_bytes(16, "big"), GIB))
    assert "256 devices" in client.expect(wire.Refused).text
    client.raw.wait_closed()


def test_frame_that_is_cut_off(serve: Serve) -> None:
    """A connection that ends within a frame is said so."""
    scheduler = serve()
    client = scheduler.client()
    client.raw.send(REGISTER[:100])
    client.close()
    [line] = scheduler.logged("peer disconnected")
    assert line["reason"] == "the connection ended within a frame"


def test_frame_in_pieces_is_a_frame(serve: Serve) -> None:
    """It does not matter how the bytes of a frame arrive."""
    scheduler = serve()
    client = scheduler.client()
    for byte in REGISTER:
        client.raw.send(bytes([byte]))
    client.expect(wire.SchedOn)


def test_client_that_reads_nothing(serve: Serve) -> None:
    """It is disconnected when its buffers are full; meanwhile others are served."""
    scheduler = serve("--policy", "exclusive")
    deaf = scheduler.client().register()
    grant = deaf.lock()
    slowest = 0.0
    for round_trip in itertools.count():
        try:
            deaf.raw.send(wire.encode(wire.LockReleased(grant)) + wire.encode(wire.ReqLock()))
        except (BrokenPipeError, ConnectionResetError):
            break
        grant += 1
        if round_trip % 50 == 0:
            began = time.perf_counter()
            scheduler.client().register(device_uuid=OTHER_DEVICE)
            slowest = max(slowest, time.perf_counter() - began)
    assert slowest < 1
    assert scheduler.logged("peer disconnected")[0]["reason"] == "it reads nothing of what it is sent"
    is_served(scheduler.client().register())


@pytest.mark.parametrize("seed", range(4))
def test_garbage(serve: Serve, seed: int) -> None:
    """Random bytes, broken and misplaced frames, whatever their cut: the scheduler lives and serves others."""
    chance = random.Random(seed)
    scheduler = serve("--policy", "exclusive")
    other = scheduler.client().register(device_uuid=OTHER_DEVICE)
    frames = [
        REGISTER,
        *(
            wire.encode(frame)
            for frame in (wire.ReqLock(), wire.LockReleased(1), wire.Footprint(GIB), wire.DropLock(1))
        ),
        *(legacy.encode(legacy.Message(kind, data="1")) for kind in legacy.LegacyType),
    ]
    slowest = 0.0
    for _ in range(150):
        client = scheduler.client()
        data = REGISTER if chance.random() < 0.5 else b""
        for _ in range(chance.randrange(6)):
            piece = bytearray(chance.choice([*frames, chance.randbytes(chance.randrange(1, 600))]))
            for _ in range(chance.randrange(3)):
                piece[chance.randrange(len(piece))] = chance.randrange(256)
            data += piece
        try:
            for start in range(0, len(data), 97):
                client.raw.send(data[start : start + 97])
        except OSError:
            pass
        if chance.random() < 0.7:
            client.close()
        slowest = max(slowest, is_served(other))
    assert slowest < 1
    assert scheduler.process.poll() is None
    assert not [line for line in scheduler.log() if line["event"] == "a bug in the scheduler"]


@pytest.mark.timeout(120)
def test_ten_thousand_silent_connections(serve: Serve) -> None:
    """They delay nobody by more than a few milliseconds and are dropped when their time is over, with few log lines."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = min(10_000, hard - 500)
    scheduler = serve("--policy", "exclusive")
    other = scheduler.client().register()
    silent = [scheduler.client() for _ in range(connections)]
    silent[0].raw.send(REGISTER[:7])
    took = [is_served(other) for _ in range(200)]
    assert statistics.median(took) < 0.005
    silent[0].raw.wait_closed()
    assert "half a frame" in str(scheduler.logged("peer disconnected")[0]["reason"])
    while_dropped = []
    silent[-1].raw.socket.setblocking(False)
    deadline = time.monotonic() + 30
    while not is_closed(silent[-1]):
        assert time.monotonic() < deadline
        while_dropped.append(is_served(other))
    assert statistics.median(while_dropped) < 0.005
    lines = scheduler.logged("peer disconnected")
    assert len(lines) < 200
    assert "no REGISTER within 10 s" in str(lines[-1]["reason"])


def is_closed(client: WireClient) -> bool:
    """Whether the scheduler has ended the connection of a client that was sent nothing."""
    try:
        return client.raw.socket.recv(1) == b""
    except BlockingIOError:
        return False


def test_out_of_descriptors(serve: Serve) -> None:
    """With no room for more connections, those that are there and the admin API are served; then new ones are."""
    scheduler = serve("--policy", "exclusive", descriptors=128)
    other = scheduler.client().register()
    silent = [scheduler.client() for _ in range(150)]
    newcomer = scheduler.client()
    newcomer.send(wire.Register(DEVICE, GIB))
    scheduler.logged("accepting paused")
    is_served(other)
    assert len(scheduler.states()) == 1
    for client in silent:
        client.close()
    newcomer.expect(wire.SchedOn)
    poll_until(lambda: len(scheduler.states()) == 2, "the newcomer is registered")

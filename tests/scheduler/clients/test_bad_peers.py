"""Peers that are wrong are disconnected with one log line, and nobody else notices."""

from __future__ import annotations

import itertools
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from nvshare.protocol import legacy, wire
from nvshare.scheduler.gpus import queries
from nvshare.scheduler.gpus.queries import Gpu
from tests.polling import poll_until
from tests.scheduler.api.pages import figures, get
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


def invented(number: int) -> bytes:
    """A UUID that no device has."""
    return number.to_bytes(16, "big")


def test_invented_devices_leave_room(serve: Serve) -> None:
    """Without NVML a process can name some devices and no more, and those that nobody uses any more make room."""
    scheduler = serve()
    clients = [scheduler.client().register(device_uuid=invented(number)) for number in range(64)]
    client = scheduler.client()
    client.send(wire.Register(invented(64), GIB))
    assert "its process named 64 devices" in client.expect(wire.Refused).text
    client.raw.wait_closed()
    for process in range(6):
        for number, other in enumerate(scheduler.clients_of_others(1, each=60), 100 * process + 100):
            other.register(device_uuid=invented(number))
            other.close()
    [real] = scheduler.clients_of_others(1, each=1)
    real.register(device_uuid=DEVICE)
    assert len(scheduler.status().devices) <= 128
    clients[0].lock()


def test_devices_that_nvml_does_not_know(serve: Serve, environment: dict[str, str]) -> None:
    """With NVML an invented device is refused, however many are; the real one has room for everybody."""
    scheduler = serve(environment=environment)
    for number in range(130):
        client = scheduler.client()
        client.send(wire.Register(invented(number), GIB))
        assert "NVML shows no device GPU-0000" in client.expect(wire.Refused).text
        client.raw.wait_closed()
    real, *_others = queries.by_bytes(discovered(environment))
    scheduler.client().register(device_uuid=real).lock()
    assert {device.uuid for device in scheduler.status().devices} == {gpu.uuid for gpu in discovered(environment)}


def discovered(environment: dict[str, str]) -> list[Gpu]:
    """The GPUs of this environment."""
    script = (
        "import sys; from nvshare.scheduler.gpus.queries import discover; print(*(g.uuid for g in discover().gpus))"
    )
    said = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return [Gpu(uuid, "", 0) for uuid in said.stdout.split()]


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
            scheduler.client().register(device_uuid=OTHER_DEVICE).close()
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
    assert scheduler.terminate() == 0
    assert not [line for line in scheduler.log() if line["event"] == "a bug in the scheduler"]


@pytest.mark.timeout(120)
def test_ten_thousand_silent_connections(serve: Serve) -> None:
    """They delay nobody by more than a few milliseconds and are dropped when their time is over, with few log lines."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = min(10_000, hard - 500)
    scheduler = serve("--policy", "exclusive")
    other = scheduler.client().register()
    alone = min(is_served(other) for _ in range(200))
    [half] = scheduler.clients_of_others(1, 1)
    half.raw.send(REGISTER[:7])
    # On a busy machine the first of them may be dropped before the last one is there.
    silent = scheduler.clients_of_others(connections // 100)
    # What a busy machine takes comes and goes.
    assert min(is_served(other) for _ in range(200)) < alone + 0.005
    half.raw.wait_closed()
    assert "half a frame" in str(scheduler.logged("peer disconnected")[0]["reason"])
    while_dropped = [is_served(other)]
    silent[-1].raw.socket.setblocking(False)
    deadline = time.monotonic() + 60
    while not is_closed(silent[-1]):
        assert time.monotonic() < deadline
        while_dropped.append(is_served(other))
    assert min(while_dropped) < alone + 0.005
    lines = scheduler.logged("peer disconnected")
    assert len(lines) < connections // 10
    assert "no REGISTER within 10 s" in str(lines[-1]["reason"])


def is_closed(client: WireClient) -> bool:
    """Whether the scheduler has ended the connection of a client that was sent nothing."""
    try:
        return client.raw.socket.recv(1) == b""
    except BlockingIOError:
        return False


def room_in(scheduler: Scheduler) -> int:
    """How many connections there can be, of a scheduler with few descriptors."""
    [line] = scheduler.logged("room for few clients: raise the limit of open files")
    return int(str(line["connections"]))


def test_out_of_descriptors(serve: Serve) -> None:
    """With no room for more, those that are there and the admin API are served, and readiness says so; then more are.

    One user has all here, for whom a tenth of the places is out of reach.
    """
    scheduler = serve("--policy", "exclusive", "--metrics-address=127.0.0.1:0", descriptors=128)
    most = room_in(scheduler)
    places = most - most // 10
    clients = [client.register() for client in scheduler.clients_of_others(places, each=1)]
    assert get(scheduler, "/readyz") == (503, f"{places} of {most} connections are in use: no room for more\n")
    scheduler.client().raw.wait_closed()
    assert f"its user has {places} of {most} connections" in str(scheduler.logged("peer turned away")[0]["reason"])
    is_served(clients[0])
    assert len(scheduler.states()) == places
    clients.pop().close()
    poll_until(lambda: len(scheduler.states()) == places - 1, "it is gone")
    assert get(scheduler, "/readyz") == (200, "ok\n")
    scheduler.client().register()
    seen = figures(scheduler)
    assert seen["nvshare_scheduler_connections_limit"] == most
    assert seen['nvshare_scheduler_dropped_connections_total{reason="crowded"}'] == 1


def test_silent_connections_make_room(serve: Serve) -> None:
    """When all places are taken by connections that say nothing, whoever registers gets one at once."""
    scheduler = serve("--metrics-address=127.0.0.1:0", descriptors=128)
    silent = scheduler.clients_of_others(2, each=room_in(scheduler))
    scheduler.client().register()
    silent[0].raw.wait_closed()
    assert len(scheduler.states()) == 1


def test_one_process_has_a_limit(serve: Serve) -> None:
    """A process that connects without end leaves room for all others."""
    scheduler = serve()
    greedy = [scheduler.client() for _ in range(129)]
    greedy[-1].raw.wait_closed()
    assert "its process has 128" in str(scheduler.logged("peer turned away")[0]["reason"])
    [other] = scheduler.clients_of_others(1, each=1)
    other.register()
    greedy[0].register()


def test_sixty_four_descriptors(serve: Serve) -> None:
    """That is enough to start and to serve some clients, the admin API and the pages, and it is told."""
    scheduler = serve("--metrics-address=127.0.0.1:0", descriptors=64)
    assert room_in(scheduler) >= 16
    clients = [client.register() for client in scheduler.clients_of_others(16, each=1)]
    assert len(scheduler.states()) == 16
    assert get(scheduler, "/readyz") == (200, "ok\n")
    is_served(clients[0])

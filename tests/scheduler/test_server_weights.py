"""What programs ask of weights, and how long turns are because of that: a real scheduler, by its status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.device_uuid import device_bytes
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.real_user import as_real_user, as_root
from tests.scheduler.test_status_with_library import run
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler, WireClient

Serve = Callable[..., Scheduler]

QUANTUM = 30.0
MANY = 128
"""The most connections that one process may have."""
WORKS = """
from tests.simgpu.device import Device, call
device = Device.open(0)
while True:
    device.spin(0.001)
    call("cuCtxSynchronize")
"""


def wants(client: WireClient, container: str, weight: float) -> WireClient:
    """A program of a container of its own, with what its environment asks for, that always has work."""
    client.register()
    client.send(wire.Terms(container=container, weight_thousandths=round(1000 * weight)))
    client.send(wire.ReqLock())
    return client


def turn_left(scheduler: Scheduler) -> float:
    """How long the holder's turn is still, in seconds."""
    [device] = scheduler.status().devices
    assert device.HasField("quantum_left_seconds")
    return device.quantum_left_seconds


def states(scheduler: Scheduler) -> list[str]:
    """Those of all clients, in alphabetical order."""
    return sorted(scheduler.states().values())


@as_root
@pytest.mark.parametrize("apart", [True, False])
def test_many_clients_of_little_weight_stretch_nobody_s_turn(serve: Serve, apart: bool) -> None:
    """What they say divides what their user has, in a container each or all in one: another user has its quantum."""
    scheduler = serve("--policy", "exclusive", "--quantum", f"{QUANTUM:g}")
    [other] = scheduler.clients_of_others(1, 1, before=as_real_user(1002))
    grant = wants(other, "mine", 1).expect(wire.LockOk).grant
    crowd = scheduler.clients_of_others(1, MANY, before=as_real_user(1001))
    for number, client in enumerate(crowd):
        wants(client, f"w{number if apart else ''}", 0.01)
    poll_until(lambda: states(scheduler) == ["holding"] + ["waiting"] * MANY, "all wait", TIMEOUT_SECONDS)
    containers = {client.member_of for device in scheduler.status().devices for client in device.clients}
    assert containers == {"mine@1002"} | {f"w{number if apart else ''}@1001" for number in range(MANY)}
    assert QUANTUM / 2 < turn_left(scheduler) <= QUANTUM
    if not apart:
        return
    other.expect(wire.Waiters)
    other.send(wire.LockReleased(grant))
    other.send(wire.ReqLock())
    crowd[0].expect(wire.LockOk)
    poll_until(lambda: states(scheduler) == ["holding"] + ["waiting"] * MANY, "all others wait", TIMEOUT_SECONDS)
    assert QUANTUM / 2 < turn_left(scheduler) <= QUANTUM, "a turn of theirs is as long"


@pytest.mark.parametrize("longest", [2, 10])
def test_no_weight_of_a_program_makes_a_turn_longer_than_the_longest(
    serve: Serve, libraries: Libraries, run_dir: RunDir, tmp_path: Path, longest: int
) -> None:
    """However much its environment asks for, beside one that asks for little."""
    options = () if longest == 10 else ("--longest-turn", str(longest))
    scheduler = serve("--policy", "exclusive", "--quantum", f"{QUANTUM:g}", *options)
    with run(WORKS, libraries, run_dir, tmp_path / "simgpu", **{paths.WEIGHT: "1000", paths.CONTAINER: "large"}) as own:
        try:
            poll_until(lambda: states(scheduler) == ["holding"], "it works", TIMEOUT_SECONDS)
            [device] = scheduler.status().devices
            waiter = scheduler.client().register(device_uuid=device_bytes(device.uuid))
            waiter.send(wire.Terms(container="small", weight_thousandths=10))
            waiter.send(wire.ReqLock())
            poll_until(lambda: states(scheduler) == ["holding", "waiting"], "the other waits", TIMEOUT_SECONDS)
            assert QUANTUM < turn_left(scheduler) <= longest * QUANTUM
        finally:
            own.kill()

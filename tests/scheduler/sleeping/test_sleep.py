"""Processes that sleep: the real scheduler, its real sleepers and the simulated driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.admin import admin_pb2
from nvshare.process_state import remedy
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.sleeping.sleepy import (
    CHECKPOINTED,
    LOCKED,
    OPTIONS,
    RUNNING,
    Door,
    Sleepy,
    SleepyProcess,
    sleepers_of,
)
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]
Start = Callable[..., SleepyProcess]
MIB = 1 << 20


@pytest.fixture
def scheduler(serve: Serve, devices: dict[str, str]) -> Scheduler:
    """One that puts to sleep who is idle."""
    return serve(*OPTIONS, environment=devices)


def reasons(scheduler: Scheduler) -> list[object]:
    """Why processes stayed awake."""
    return [line["reason"] for line in scheduler.logged("a process stays awake")]


def test_it_sleeps_and_wakes(scheduler: Scheduler, start: Start) -> None:
    """As often as it is idle; asleep it has nothing on its GPU, and nobody is at work."""
    client = Sleepy(start(), scheduler).come()
    for _ in range(2):
        client.falls_asleep()
        poll_until(lambda: not sleepers_of(scheduler), "its sleeper has ended", TIMEOUT_SECONDS)
        client.wakes()


def test_many_at_a_time(scheduler: Scheduler, start: Start) -> None:
    """None waits for another one, not for one that stands still either."""
    first, *others = [Sleepy(start(), scheduler).come() for _ in range(3)]
    first.obeys = False
    first.sees(lambda: first.asked, "it is to sleep")
    first.process.stop()
    first.client.send(wire.Asleep(first.asked[0]))
    for other in others:
        other.falls_asleep().wakes()
    assert sleepers_of(scheduler)
    first.process.process.send_signal(signal.SIGCONT)
    first.door.is_closed = first.obeys = True
    first.falls_asleep().wakes()


def test_one_that_is_stopped_is_to_wake(scheduler: Scheduler, start: Start) -> None:
    """That it can't is shown at once, with what lets it go on."""
    client = Sleepy(start(), scheduler).come()
    client.falls_asleep()
    client.process.stop()
    scheduler.admin.Wake(admin_pb2.SleepRequest(name=f"pid:{client.process.pid}"), timeout=TIMEOUT_SECONDS)
    [shown] = scheduler.status().devices[0].clients
    assert (shown.state, list(shown.notices)) == ("waking", [remedy(client.process.pid)])


def test_two_gpus(scheduler: Scheduler, start: Start) -> None:
    """One process, one door: one of its clients closes it, and either wants it open."""
    process, door = start(2), Door()
    clients = [Sleepy(process, scheduler, door, gpu).come() for gpu in range(2)]

    def hear() -> None:
        for client in clients:
            client.sees(lambda: True, "what it is told")

    def closed() -> bool:
        hear()
        return door.is_closed and all(client.shown() == "asleep" for client in clients)

    def opened() -> bool:
        hear()
        return not door.is_closed and process.state() == RUNNING

    for client in clients:
        poll_until(closed, "both are asleep", TIMEOUT_SECONDS)
        client.client.send(wire.Wake())
        poll_until(opened, "both are awake", TIMEOUT_SECONDS)


def test_its_library_refuses(scheduler: Scheduler, start: Start) -> None:
    """For now: it is asked again."""
    client = Sleepy(start(), scheduler).come()
    client.obeys = False
    client.sees(lambda: client.asked, "it is to sleep")
    client.client.send(wire.NotAsleep(client.asked[0], "a thread is in cuCtxCreate"))
    client.obeys = True
    client.falls_asleep().wakes()
    assert reasons(scheduler) == ["a thread is in cuCtxCreate"]


def test_its_library_refuses_for_good(scheduler: Scheduler, start: Start) -> None:
    """It is not asked again."""
    client = Sleepy(start(), scheduler).come()
    client.obeys = False
    client.sees(lambda: client.asked, "it is to sleep")
    client.client.send(wire.NotAsleep(client.asked[0], "it has multicast objects", final=True))
    other = Sleepy(start(), scheduler).come()
    for _ in range(2):
        other.falls_asleep().wakes()
    client.sees(lambda: True, "what it was told")
    assert len(client.asked) == 1


def test_a_late_answer(scheduler: Scheduler, start: Start) -> None:
    """Whoever answers when nobody waits any more is told to open its door."""
    client = Sleepy(start(), scheduler).come()
    client.obeys = False
    client.sees(lambda: client.asked, "it is to sleep")
    assert reasons(scheduler) == ["it does not answer within 10 s"]
    client.client.send(wire.Asleep(client.asked[0]))
    client.sees(lambda: client.woken or len(client.asked) > 1, "it is to open its door, or asked once more")
    client.obeys = True
    if not client.woken:
        client.client.send(wire.Asleep(client.asked[-1]))
        client.door.is_closed = True
    client.falls_asleep().wakes()


@pytest.mark.parametrize("frame", [wire.Asleep(1), wire.NotAsleep(1, "why")], ids=["asleep", "not asleep"])
def test_nobody_asked(scheduler: Scheduler, start: Start, frame: wire.Frame) -> None:
    """Whoever answers that has its connection ended."""
    client = Sleepy(start(), scheduler).come()
    client.client.send(frame)
    client.client.raw.wait_closed()
    assert "nobody asked" in str(scheduler.logged("peer disconnected")[0]["reason"])


@pytest.mark.parametrize("frame", [wire.Asleep(0), wire.Wake(), wire.Sleep(1), wire.Awake()], ids=lambda each: each)
def test_too_early_or_not_a_clients(scheduler: Scheduler, start: Start, frame: wire.Frame) -> None:
    """Before REGISTER, or what only a scheduler says."""
    client = start().connect(scheduler)
    client.send(frame)
    client.raw.wait_closed()


def test_managed_memory(scheduler: Scheduler, start: Start) -> None:
    """The driver refuses: it is unlocked, its door opens, and it is not tried again."""
    process = start()
    process.do("managed", MIB)
    client = Sleepy(process, scheduler).come()
    client.sees(lambda: client.woken, "it is told to open its door")
    assert process.state() == RUNNING
    (line,) = scheduler.logged("a process stays awake")
    assert (line["final"], line["reason"]) == (True, "the driver can't checkpoint what it has, as managed memory")


def test_no_room(serve: Serve, start: Start, devices: dict[str, str], tmp_path: Path) -> None:
    """The driver loses whom it restores without room; that one's calls fail, and it is not asked to sleep again."""
    taker, process = start(), start()
    (tmp_path / "simgpu" / "nvml").write_text("no-memory 0\nno-memory 1\n")
    scheduler = serve(*OPTIONS, environment=devices)
    client = Sleepy(process, scheduler).come()
    # No measurement tells that it has a context: it is known to have one since it has computed.
    client.lock().until(lambda: client.grant is not None)
    client.client.send(wire.LockReleased(client.grant or 0))
    client.falls_asleep()
    taker.do("allocate", 1300 * MIB)
    client.client.send(wire.Wake())
    client.sees(lambda: client.woken, "it is told to open its door")
    assert client.door.is_lost
    assert process.state() == CHECKPOINTED
    assert scheduler.logged("the driver has lost a process: its calls fail from now on")
    client.sees(lambda: client.shown() == "idle", "it counts as awake")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has what a sleeper needs, or does not have it")
def test_no_rights(serve: Serve, start: Start, devices: dict[str, str]) -> None:
    """The scheduler may not look into it: it stays awake, and its door opens."""
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--"]
    scheduler = serve(*OPTIONS, environment=devices, before=drop)
    client = Sleepy(start(), scheduler).come()
    client.sees(lambda: client.woken, "it is told to open its door")
    assert "SYS_PTRACE" in str(reasons(scheduler)[0])


def test_no_driver(serve: Serve, start: Start, devices: dict[str, str], tmp_path: Path) -> None:
    """It is said once; after that nobody is asked."""
    nvml = tmp_path / "nvml"
    nvml.mkdir()
    library = Path(devices["LD_LIBRARY_PATH"]) / "libnvidia-ml.so.1"
    (nvml / library.name).symlink_to(library)
    scheduler = serve(*OPTIONS, environment=devices | {"LD_LIBRARY_PATH": str(nvml)})
    first = Sleepy(start(), scheduler).come()
    first.sees(lambda: first.woken, "it is told to open its door")
    second = Sleepy(start(), scheduler).come()
    poll_until(lambda: len(reasons(scheduler)) == 2, "both stay awake", TIMEOUT_SECONDS)
    assert all("libcuda.so.1" in str(reason) for reason in reasons(scheduler))
    second.sees(lambda: True, "what it was told")
    assert not second.asked
    assert len(scheduler.logged("no process can sleep here")) == 1


def test_killed_while_it_sleeps(scheduler: Scheduler, start: Start) -> None:
    """Nothing of it stays."""
    client = Sleepy(start(), scheduler).come().falls_asleep()
    client.process.kill()
    client.client.close()
    poll_until(lambda: not scheduler.states(), "it is gone", TIMEOUT_SECONDS)
    Sleepy(start(), scheduler).come().falls_asleep().wakes()


@pytest.mark.parametrize("steps", [(), ("lock",), ("lock", "checkpoint")], ids=["running", "locked", "checkpointed"])
def test_found_when_the_scheduler_comes(serve: Serve, start: Start, devices: dict[str, str], steps: tuple[str]) -> None:
    """Wherever the former scheduler ended: who is asleep stays so until it wants to wake, all others are awake."""
    process, door = start(), Door()
    process.take(*steps)
    assert process.state() == (RUNNING, LOCKED, CHECKPOINTED)[len(steps)]
    scheduler = serve("--host-memory", "1GiB", environment=devices)
    door.is_closed = True
    client = Sleepy(process, scheduler, door).come()
    if "checkpoint" in steps:
        client.falls_asleep().wakes()
    else:
        client.sees(lambda: client.woken, "it is told to open its door")
    assert process.state() == RUNNING


def test_scheduler_killed_while_it_sleeps(serve: Serve, start: Start, devices: dict[str, str]) -> None:
    """It sleeps on, and wakes by the next one; a call waits already."""
    scheduler = serve(*OPTIONS, environment=devices)
    client = Sleepy(start(), scheduler).come().falls_asleep()
    scheduler.kill()
    assert client.process.state() == CHECKPOINTED
    scheduler = serve(*OPTIONS, environment=devices)
    back = Sleepy(client.process, scheduler, client.door).come()
    back.wakes().falls_asleep().wakes()

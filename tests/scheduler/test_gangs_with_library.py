"""Jobs whose kernels wait for each other, on two simulated GPUs: the real scheduler and the real library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from nvshare import paths, simgpu
from nvshare.paths import RunDir
from nvshare.simgpu import record, transfers
from nvshare.simgpu.turns import overlaps
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import Program, Serve, Start, ends_well, programs, tell
from tests.scheduler.wire_client import Scheduler
from tests.shim.gang_job import Job

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

DEVICES = "2x1GiB/32MiB"
TRAINER = """
import select, sys
from tests.simgpu.device import Device, allocate, call
device, size, rounds = Device.open(), int(sys.argv[1]) << 20, 0
block = allocate(size)
places = range(block, block + size, 16 << 20)
for place in places:
    device.fill(place, 0.0, 200)
while not select.select([sys.stdin], [], [], 0)[0]:
    for place in places:
        assert device.floats(place, 200) == [float(rounds)] * 200
        device.fill(place, float(rounds + 1), 200)
    device.spin(0.01)
    call("cuCtxSynchronize")
    rounds += 1
print("right", flush=True)
"""


@pytest.fixture
def start_trainer(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """Starts a program with so many MiB on the first device that changes them again and again until it is told."""
    with programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as begin:
        yield partial(begin, rounds=0, script=TRAINER)


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts these ranks of a job of two, each in a process and on a device of its own; the name is its gang's.

    With options for the ranks nobody names their gang: that they open each other's memory has to show it.
    """
    jobs: list[Job] = []

    def begin(name: str, memory: str = "native", *options: str, ranks: tuple[int, ...] = (0, 1)) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        environment = simgpu.environment(tmp_path / "simgpu", DEVICES, dict(os.environ)) | {
            paths.LD_PRELOAD: str(libraries.shim),
            paths.RUN_DIR: str(run_dir.root / "run"),
            paths.MEMORY: memory,
            "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        }
        if not options:
            environment[paths.GANG] = name
        jobs.append(Job(environment, folder, 2))
        for rank in ranks:
            jobs[-1].start(f"{rank}:{rank}", *options)
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()


def had_turns(scheduler: Scheduler, jobs: list[Job], least: int, *others: Program) -> bool:
    """Each rank of all jobs, and each other program, was granted its device so often."""
    clients = [client for device in scheduler.status().devices for client in device.clients]
    processes = [*others, *(process for job in jobs for process in job.processes)]
    return all(
        max((client.grants for client in clients if client.pid == process.pid), default=0) >= least
        for process in processes
    )


@pytest.mark.parametrize("memory", ["native", "swap"])
def test_two_jobs_take_turns(serve: Serve, start: Callable[..., Job], tmp_path: Path, memory: str) -> None:
    """Neither waits for ever, both compute what they would alone, and never is one on a device beside the other."""
    scheduler = serve("--quantum", "0.2", environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    jobs = [start("first", memory), start("second", memory)]
    poll_until(lambda: had_turns(scheduler, jobs, 10), "each has had ten turns", timeout=60)
    for device in scheduler.status().devices:
        assert {client.gang.name for client in device.clients} == {"first", "second"}
    for job in jobs:
        job.finish()
    for ordinal in (0, 1):
        assert overlaps(record.read(tmp_path / "simgpu", ordinal)) == []


def test_members_that_begin_crosswise(serve: Serve, start: Callable[..., Job], tmp_path: Path) -> None:
    """Of each of two jobs one rank begins long before the other, on different devices: neither holds what it has alone.

    Without sizes each would hold one device, whose kernel waits for that of the other one, for as long as ``--grace``.
    """
    options = ("--quantum", "0.2", "--grace", "3600")
    scheduler = serve(*options, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    jobs = [start("first:2", ranks=(0,)), start("second:2", ranks=(1,))]

    def wait_alone() -> bool:
        clients = [client for device in scheduler.status().devices for client in device.clients]
        seen = [(client.state, client.gang.come, client.gang.expected) for client in clients]
        return seen == [("waiting", 1, 2)] * 2 and min(client.waited_seconds for client in clients) > 1.5

    poll_until(wait_alone, "both wait for longer than those without a size would", timeout=60)
    jobs[0].start("1:1")
    jobs[1].start("0:0")
    poll_until(lambda: had_turns(scheduler, jobs, 3), "each has had three turns", timeout=60)
    for job in jobs:
        job.finish()
    for ordinal in (0, 1):
        assert overlaps(record.read(tmp_path / "simgpu", ordinal)) == []


def test_the_scheduler_is_killed(serve: Serve, start: Callable[..., Job], tmp_path: Path) -> None:
    """Whatever the jobs, with a size and without, are doing when it dies, they go on with the next one, rightly."""
    seen = simgpu.environment(tmp_path / "simgpu", DEVICES)
    jobs = [start("first"), start("second:2")]
    for _ in range(3):
        scheduler = serve("--quantum", "0.2", environment=seen)
        poll_until(partial(had_turns, scheduler, jobs, 3), "each has had three turns", timeout=60)
        scheduler.process.kill()
        scheduler.process.wait()
    serve("--quantum", "0.2", environment=seen)
    for job in jobs:
        job.finish()
    for ordinal in (0, 1):
        assert overlaps(record.read(tmp_path / "simgpu", ordinal)) == []


def gangs(scheduler: Scheduler) -> dict[int, str]:
    """The gang of each client that has allocated, by its process; none: empty."""
    clients = [client for device in scheduler.status().devices for client in device.clients]
    return {client.pid: client.gang.name for client in clients if client.footprint_bytes}


def has_swapped(scheduler: Scheduler) -> bool:
    """Memory has left a device for another client's."""
    return any(device.swapping.out_bytes for device in scheduler.status().devices)


def test_an_inference_server_beside_a_trainer(
    serve: Serve, start: Callable[..., Job], start_trainer: Start, tmp_path: Path
) -> None:
    """Ranks that meet in memory which one opens of the other hold together, and a trainer on one's device has turns.

    Their memory does not fit beside the trainer's and swaps; what they share stays. The scheduler is killed meanwhile.
    """
    seen = simgpu.environment(tmp_path / "simgpu", DEVICES)
    options = ("--policy", "exclusive", "--quantum", "0.3", "--host-memory", "4GiB", "--reserve", "32MiB")
    scheduler = serve(*options, environment=seen)
    server, trainer = start("server", "swap", "ipc=1", "fill=500"), start_trainer(500)
    ranks = [process.pid for process in server.processes]
    for _ in range(2):
        poll_until(partial(had_turns, scheduler, [server], 3, trainer), "all have had three turns", timeout=60)
        found = gangs(scheduler)
        assert found[ranks[0]] == found[ranks[1]] != found[trainer.pid] == ""
        poll_until(partial(has_swapped, scheduler), "memory has left a device", timeout=30)
        scheduler.kill()
        scheduler = serve(*options, environment=seen)
    poll_until(partial(had_turns, scheduler, [server], 2, trainer), "all have turns again", timeout=60)
    server.finish(300)
    tell(trainer)
    ends_well(trainer)
    for ordinal in (0, 1):
        assert overlaps(transfers.work(record.read(tmp_path / "simgpu", ordinal))) == []

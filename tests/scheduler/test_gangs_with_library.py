"""Jobs whose kernels wait for each other, on two simulated GPUs: the real scheduler and the real library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from nvshare import paths, simgpu
from nvshare.paths import RunDir
from nvshare.simgpu import record
from nvshare.simgpu.turns import overlaps
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler
from tests.shim.gang_job import Job

pytestmark = pytest.mark.timeout(240)

Serve = Callable[..., Scheduler]
DEVICES = "2x1GiB/32MiB"


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts these ranks of a job of two, each in a process and on a device of its own; the name is its gang's."""
    jobs: list[Job] = []

    def begin(name: str, memory: str = "native", ranks: tuple[int, ...] = (0, 1)) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        environment = simgpu.environment(tmp_path / "simgpu", DEVICES, dict(os.environ)) | {
            paths.LD_PRELOAD: str(libraries.shim),
            paths.RUN_DIR: str(run_dir.root / "run"),
            paths.MEMORY: memory,
            paths.GANG: name,
            "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        }
        jobs.append(Job(environment, folder, 2))
        for rank in ranks:
            jobs[-1].start(f"{rank}:{rank}")
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()


def had_turns(scheduler: Scheduler, jobs: list[Job], least: int) -> bool:
    """Each rank of all jobs was granted its device so often."""
    turns = {client.pid: client.grants for device in scheduler.status().devices for client in device.clients}
    return all(turns.get(process.pid, 0) >= least for job in jobs for process in job.processes)


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

"""Jobs whose kernels wait for each other, and whose memory does not fit together: two simulated GPUs, slow enough."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nvshare import paths, simgpu
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.simgpu import record, transfers
from nvshare.simgpu.turns import overlaps
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import Serve
from tests.scheduler.wire_client import Scheduler
from tests.shim.gang_job import Job

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

DEVICES = "2x512MiB/32MiB"
SLOW = f"{DEVICES}@800MB/s"
"""A rank's memory takes a third of a second."""
EACH = 260
"""MiB of each rank: two on a device are more than their contexts leave of it."""
SERVED = ("--quantum", "0.2", "--host-memory", "4GiB", "--reserve", "32MiB")
PATIENCE = 90.0

Start = Callable[..., Job]


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """Starts a job of two ranks, each in a process and on a device of its own; the name is its gang's."""
    jobs: list[Job] = []

    def begin(name: str, devices: str = SLOW) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        environment = simgpu.environment(tmp_path / "simgpu", devices, dict(os.environ)) | {
            paths.LD_PRELOAD: str(libraries.shim),
            paths.RUN_DIR: str(run_dir.root / "run"),
            paths.MEMORY: "swap",
            paths.GANG: name,
            "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        }
        jobs.append(Job(environment, folder, 2))
        for rank in range(2):
            jobs[-1].start(f"{rank}:{rank}", f"fill={EACH}")
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()


def clients(scheduler: Scheduler) -> dict[int, admin_pb2.Client]:
    """What the status says, by pid."""
    return {client.pid: client for device in scheduler.status().devices for client in device.clients}


def rounds(jobs: list[Job], least: int) -> bool:
    """Each rank of all jobs was granted its device so often."""
    return all(count >= least for job in jobs for count in job.submitted)


def check_moves(folder: Path, jobs: list[Job]) -> None:
    """No memory of a job left while a kernel of any of its ranks ran, nor came in while one of that rank did."""
    spans = [span for device in (0, 1) for span in record.read(folder, device)]
    for job in jobs:
        pids = {process.pid for process in job.processes}
        moves = [span for span in spans if span.pid in pids and transfers.swaps(span)]
        kernels = [span for span in spans if span.pid in pids and span.name == "nvs_meet_u64"]
        for move in moves:
            users = pids if move.name == transfers.TO_HOST else {move.pid}
            for each in kernels:
                beside = each.pid in users and each.start_ns < move.end_ns and move.start_ns < each.end_ns
                assert not beside, (move, each)
        assert {move.pid for move in moves} == pids, "all of its members moved"


def check_turns(folder: Path) -> None:
    """Never did two processes work on one device."""
    for device in (0, 1):
        assert overlaps(transfers.work(record.read(folder, device))) == []


def test_all_members_move_after_the_cut(serve: Serve, start: Start, tmp_path: Path) -> None:
    """No rank's memory leaves while a kernel of its job runs anywhere, and all of it comes back as it was."""
    scheduler = serve(*SERVED, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    jobs = [start("first", DEVICES), start("second", DEVICES)]
    pids = [process.pid for job in jobs for process in job.processes]

    def had_turns() -> bool:
        seen = clients(scheduler)
        return all(pid in seen and seen[pid].grants >= 4 for pid in pids)

    poll_until(had_turns, "each has had four turns", PATIENCE)
    for job in jobs:
        job.finish(200)
    check_moves(tmp_path / "simgpu", jobs)
    check_turns(tmp_path / "simgpu")


def moving(scheduler: Scheduler, pids: list[int], what: str) -> int | None:
    """The first of these whose memory is on its way."""
    seen = clients(scheduler)
    return next((pid for pid in pids if pid in seen and getattr(seen[pid].swap, what) > 16 << 20), None)


def met(serve: Serve, start: Start, tmp_path: Path) -> tuple[Scheduler, list[Job], dict[str, Any]]:
    """Two jobs that have both begun to compute."""
    options = {"environment": simgpu.environment(tmp_path / "simgpu", SLOW)}
    scheduler = serve(*SERVED, **options)
    jobs = [start("first"), start("second")]
    poll_until(partial(rounds, jobs, 1), "both compute", PATIENCE)
    return scheduler, jobs, options


@pytest.mark.parametrize("what", ["leaving_bytes", "coming_bytes"])
def test_a_member_dies_while_its_memory_moves(serve: Serve, start: Start, tmp_path: Path, what: str) -> None:
    """The other job goes on and computes the same, and nothing is left of the dead."""
    scheduler, jobs, _ = met(serve, start, tmp_path)
    pids = {process.pid: job for job in jobs for process in job.processes}
    dead = poll_until(lambda: moving(scheduler, list(pids), what), "memory moves", PATIENCE, 0.01)
    assert dead is not None
    job = pids[dead]
    other = next(each for each in jobs if each is not job)
    next(process for process in job.processes if process.pid == dead).kill()
    poll_until(lambda: dead not in clients(scheduler), "it is gone")
    # Whoever started the job ends its other ranks, too.
    job.end()
    other.finish(200)
    poll_until(lambda: not clients(scheduler), "all are gone", PATIENCE)
    poll_until(lambda: not scheduler.status().host_memory_used_bytes, "no host memory is kept", PATIENCE)


@pytest.mark.parametrize("what", ["leaving_bytes", "coming_bytes"])
def test_the_scheduler_dies_while_memory_moves(serve: Serve, start: Start, tmp_path: Path, what: str) -> None:
    """Both jobs go on with the next one, and compute the same."""
    scheduler, jobs, options = met(serve, start, tmp_path)
    pids = [process.pid for job in jobs for process in job.processes]
    poll_until(lambda: moving(scheduler, pids, what), "memory moves", PATIENCE, 0.01)
    scheduler.process.kill()
    scheduler.process.wait()
    scheduler = serve(*SERVED, **options)
    for job in jobs:
        job.finish(200)
    check_turns(tmp_path / "simgpu")

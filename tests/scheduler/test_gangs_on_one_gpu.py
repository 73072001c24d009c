"""Gangs with two members on one simulated GPU, beside a program: the real scheduler and the real library."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths, simgpu
from nvshare.paths import RunDir
from nvshare.simgpu import record, transfers
from nvshare.simgpu.turns import overlaps
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import Serve, line
from tests.scheduler.wire_client import Scheduler
from tests.shim.gang_job import Job
from tests.stopping import stop

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

DEVICES = "2x512MiB/32MiB"
SERVED = ("--quantum", "0.2", "--host-memory", "4GiB", "--reserve", "32MiB")
PATIENCE = 90.0
GROWER = """
import ctypes, sys
from tests.simgpu.device import Device, call
device = Device.open()
driver = ctypes.CDLL("libcuda.so.1")
def allocate(mebibytes):
    block = ctypes.c_uint64()
    result = driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(mebibytes << 20))
    if not result:
        device.fill(block.value, 1.0, 200)
        call("cuCtxSynchronize")
    return result
print(allocate(int(sys.argv[1])), flush=True)
for request in sys.stdin:
    print(allocate(int(request)), flush=True)
"""

Start = Callable[..., Job]


@pytest.fixture
def environment(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> dict[str, str]:
    """Of programs whose memory swaps."""
    return simgpu.environment(tmp_path / "simgpu", DEVICES, dict(os.environ)) | {
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(run_dir.root / "run"),
        paths.MEMORY: "swap",
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
    }


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts a job whose ranks are on these devices, each with so many MiB; one with several is a gang by its name."""
    jobs: list[Job] = []

    def begin(name: str, devices: tuple[int, ...], mebibytes: int) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        gang = {paths.GANG: f"{name}:{len(devices)}"} if len(devices) > 1 else {}
        jobs.append(Job(environment | gang, folder, len(devices)))
        for rank, device in enumerate(devices):
            jobs[-1].start(f"{rank}:{device}", f"fill={mebibytes}")
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()


def had_turns(scheduler: Scheduler, jobs: list[Job], least: int) -> bool:
    """Each rank of all jobs was granted its device so often."""
    grants = {client.pid: client.grants for device in scheduler.status().devices for client in device.clients}
    return all(grants.get(process.pid, 0) >= least for job in jobs for process in job.processes)


def told(program: subprocess.Popen[str], mebibytes: int) -> str:
    """Lets it allocate so much more; what the driver answers."""
    assert program.stdin is not None
    program.stdin.write(f"{mebibytes}\n")
    program.stdin.flush()
    return line(program)


def test_a_gang_and_a_program_whose_memory_does_not_fit(serve: Serve, start: Start, tmp_path: Path) -> None:
    """Both members of the gang come in, one after the other, and the program does; all compute the same as alone."""
    scheduler = serve(*SERVED, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    jobs = [start("gang", (0, 0), 160), start("program", (0,), 300)]
    # A turn is 24 hand-overs long, and on a busy machine one takes half a second.
    poll_until(lambda: had_turns(scheduler, jobs, 3), "each has had three turns", PATIENCE)
    for job in jobs:
        job.finish(200)
    kernels = transfers.work(record.read(tmp_path / "simgpu", 0))
    members = {process.pid for process in jobs[0].processes}
    found = [(one, other) for one, other in overlaps(kernels) if not {one.pid, other.pid} <= members]
    assert found == []


def test_a_program_that_fits_beside_a_gang_on_two_devices(serve: Serve, start: Start, tmp_path: Path) -> None:
    """The gang has each of its devices alone: the program gets its turns though there is memory for it."""
    scheduler = serve(*SERVED, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    jobs = [start("gang", (0, 0, 1), 40)]
    poll_until(lambda: had_turns(scheduler, jobs, 1), "the gang runs", PATIENCE)
    jobs.append(start("program", (0,), 40))
    poll_until(lambda: had_turns(scheduler, jobs, 5), "each has had five turns", PATIENCE)
    for job in jobs:
        job.finish(200)


def test_a_gang_that_hangs_is_killed_for_a_program_that_fits(serve: Serve, start: Start, tmp_path: Path) -> None:
    """One member is stopped, so that none of them can leave."""
    options = (*SERVED, "--unresponsive", "kill", "--grace", "1")
    scheduler = serve(*options, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    gang = start("gang", (0, 0, 1), 40)
    poll_until(lambda: had_turns(scheduler, [gang], 1), "the gang runs", PATIENCE)
    stop(gang.processes[1].pid)
    program = start("program", (0,), 40)
    poll_until(lambda: had_turns(scheduler, [program], 1), "the program is served", PATIENCE)
    program.finish(20)
    assert [process.wait(PATIENCE) for process in gang.processes[:2]] == [-9, -9]


def test_a_member_that_grows_beyond_the_device_is_answered(
    serve: Serve, environment: dict[str, str], tmp_path: Path
) -> None:
    """Both members hold and fill the device; what one allocates then it has."""
    scheduler = serve(*SERVED, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
    pipe = subprocess.PIPE
    members = [
        subprocess.Popen(
            [sys.executable, "-c", GROWER, size],
            env=environment | {paths.GANG: "gang:2"},
            stdin=pipe,
            stdout=pipe,
            text=True,
        )
        for size in ("256", "160")
    ]
    try:
        assert [line(each) for each in members] == ["0", "0"]

        def both_hold() -> bool:
            return [client.state for device in scheduler.status().devices for client in device.clients] == [
                "holding"
            ] * 2

        poll_until(both_hold, "both hold", PATIENCE)
        assert told(members[1], 8) == "0"
        assert told(members[0], 1) == "0"
    finally:
        for each in members:
            each.kill()
            each.communicate()

"""The scheduler is killed while a holder drains: real programs under the library, on a simulated GPU that records."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import LD_PRELOAD, ON_MISSING, RUN_DIR, RunDir
from nvshare.simgpu import record
from nvshare.simgpu.turns import overlaps
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler

Serve = Callable[..., Scheduler]
Start = Callable[..., "subprocess.Popen[str]"]

LONG_KERNEL_SECONDS = 5.0
"""Longer than the two seconds that a scheduler once gave its predecessor's clients."""
PROGRAM = """
import os, sys
from tests.simgpu.device import Device, call
device = Device.open()
left = int(sys.argv[2])
while left or not os.path.exists(sys.argv[3]):
    left = max(0, left - 1)
    device.spin(float(sys.argv[1]))
    print("launched", flush=True)
    call("cuCtxSynchronize")
"""


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """Starts a program that runs kernels of so many seconds: so many, and then more until a file is there."""
    variables = simgpu.environment(tmp_path / "simgpu") | {
        LD_PRELOAD: str(libraries.shim),
        RUN_DIR: str(run_dir.root / "run"),
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(seconds: float, kernels: int, until: Path = Path("/"), **more: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", PROGRAM, str(seconds), str(kernels), str(until)]
            process = subprocess.Popen(command, env=variables | more, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def test_nobody_runs_beside_a_kernel_that_outlives_the_scheduler(serve: Serve, start: Start, tmp_path: Path) -> None:
    """The next scheduler grants nothing before the holder has said that its long kernel is over."""
    options = ("--policy", "exclusive", "--quantum", "0.2")
    scheduler = serve(*options)
    holder = start(LONG_KERNEL_SECONDS, 2)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "launched\n"
    waiter = start(0.05, 3)
    poll_until(lambda: sorted(scheduler.states().values()) == ["holding", "waiting"], "the other one waits", 20)
    poll_until(
        lambda: not scheduler.status().devices[0].HasField("quantum_left_seconds"), "the holder was asked to leave", 20
    )
    scheduler.kill()
    scheduler = serve(*options)
    assert [program.wait(60) for program in (waiter, holder)] == [0, 0]
    spans = record.read(tmp_path / "simgpu", 0)
    assert len([span for span in spans if span.name == "nvs_spin"]) == 5
    assert overlaps(spans) == []


def test_who_ran_without_a_scheduler_drains_before_others_run(serve: Serve, start: Start, tmp_path: Path) -> None:
    """It holds by no record, so it must leave at once; its kernel is waited for all the same."""
    enough = tmp_path / "enough"
    alone = start(3.0, 0, enough, **{ON_MISSING: "run"})
    assert alone.stdout is not None
    assert alone.stdout.readline() == "launched\n"
    scheduler = serve("--policy", "exclusive")
    poll_until(lambda: list(scheduler.states().values()) == ["holding"], "it is registered", 20)
    assert start(0.05, 3).wait(60) == 0
    enough.touch()
    assert alone.wait(60) == 0
    spans = record.read(tmp_path / "simgpu", 0)
    assert len([span for span in spans if span.name == "nvs_spin"]) > 3
    assert overlaps(spans) == []

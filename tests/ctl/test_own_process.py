"""``nvshare.limit`` and ``nvshare.status``, in programs on simulated GPUs that nvshare-ctl run starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import build_native
from nvshare import simgpu
from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.ctl.program import ctl, environment
from tests.polling import poll_until

PATH = os.pathsep.join((str(build_native.ROOT), str(build_native.SOURCES)))
BEGIN = """
import json, os
import nvshare
from tests.simgpu.device import Device, allocate, error
"""
USE = "device = Device.open(); allocate(8 << 20); device.spin(0.05)\n"
SHOW = """
own = [each for device in nvshare.status()["devices"] for each in device["clients"] if each["pid"] == os.getpid()]
print(json.dumps([own[0]["member_of"], own[0]["terms"]]))
"""


@pytest.fixture
def shared(run_dir: RunDir, tmp_path: Path, libraries: Libraries) -> Iterator[Callable[..., Any]]:
    """Runs lines in a program that shares a simulated GPU of 1 GiB; what it prints as JSON."""

    def run(lines: str) -> Any:
        variables = simgpu.environment(tmp_path / "gpus", "1x1GiB/1MiB") | {"PYTHONPATH": PATH}
        done = ctl(run_dir, "run", "--", sys.executable, "-c", BEGIN + lines, **variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    yield run
    if run_dir.pid_file.exists():
        os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)
        poll_until(lambda: not run_dir.client_socket.exists(), "the scheduler has ended")


def test_before_the_first_use(shared: Callable[..., Any]) -> None:
    """All of it counts, and more memory than that is refused."""
    limit = "nvshare.limit(memory='64MiB', weight=2.5, priority='low', name='notebook')\n"
    name, terms = shared(limit + USE + "assert error('cuMemAlloc', 128 << 20) == 'CUDA_ERROR_OUT_OF_MEMORY'\n" + SHOW)
    assert name == f"notebook@{os.getuid()}"
    assert (terms["memory_limit_bytes"], terms["weight"], terms["priority"]) == (64 << 20, 2.5, "low")
    assert terms["by_command"] == []


def test_after_the_first_use(shared: Callable[..., Any]) -> None:
    """The scheduler is told, as by nvshare-ctl set."""
    _name, terms = shared(USE + "nvshare.limit(memory=64 << 20, weight=3)\n" + SHOW)
    assert (terms["memory_limit_bytes"], terms["weight"]) == (64 << 20, 3)
    assert set(terms["by_command"]) == {"memory_limit_bytes", "weight"}


def test_too_late(shared: Callable[..., Any]) -> None:
    """Another name, and anything where no scheduler takes it from this process."""
    lines = """
said = []
for where, what in ((os.environ["NVSHARE_RUN_DIR"], {"name": "late"}), ("/nowhere", {"weight": 2})):
    os.environ["NVSHARE_RUN_DIR"] = where
    try:
        nvshare.limit(**what)
    except nvshare.TooLateError as error:
        said.append(str(error))
print(json.dumps(said))
"""
    name, weight = shared(USE + lines)
    assert "can't be called 'late'" in name
    assert "no scheduler runs (nobody answers at /nowhere/admin/admin.sock)" in weight
    assert "restart the kernel" in name
    assert "restart the kernel" in weight


def alone(run_dir: RunDir, lines: str) -> str:
    """The last line of what a program without nvshare says on stderr."""
    command = [sys.executable, "-c", "import nvshare\n" + lines]
    done = subprocess.run(command, env=environment(run_dir), capture_output=True, text=True, timeout=60, check=False)
    return done.stderr.splitlines()[-1]


def test_without_the_library(run_dir: RunDir) -> None:
    """It says how to start the program."""
    said = alone(run_dir, "nvshare.limit(weight=2)")
    assert said.startswith("nvshare.api_errors.NotLoadedError: nvshare's library is not loaded in this process")
    assert "nvshare-ctl run -- COMMAND" in said
    assert alone(run_dir, "nvshare.status()").startswith("nvshare.api_errors.SchedulerError: no scheduler runs")


@pytest.mark.parametrize(
    "wrong", ["memory='much'", "memory=0", "weight=0", "weight='much'", "weight=float('nan')", "name='a b'"]
)
def test_values(run_dir: RunDir, wrong: str) -> None:
    """What means nothing is said with the value, before anything else."""
    assert alone(run_dir, f"nvshare.limit({wrong})").startswith("ValueError: '")


def test_import_is_cheap(run_dir: RunDir) -> None:
    """Nothing that programs don't load anyway comes with it, but typing and its own errors."""
    lines = "import sys, typing; before = set(sys.modules)\nimport nvshare\nprint(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-c", lines]
    done = subprocess.run(command, env=environment(run_dir), capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) <= {"nvshare", "nvshare.api_errors", "__future__"}

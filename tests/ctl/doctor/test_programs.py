"""What doctor says of programs that use a GPU: it looks into their processes, and says what is so and what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.doctor import program_look
from nvshare.ctl.doctor.findings import Level
from nvshare.ctl.doctor.machine_facts import Machine, User
from nvshare.ctl.doctor.program_checks import awake, others, stopped
from nvshare.ctl.doctor.program_facts import Awake, Program, Stopped
from nvshare.paths import RunDir
from tests.ctl.doctor.test_machine import GIB, WELL, gpu, scheduler
from tests.ctl.program import COMMAND, ctl
from tests.polling import poll_until
from tests.stopping import stop

OURS = Program(13, "python train.py", True, True, ("/run/nvshare",), True, "/run/nvshare", 77)
_SUBJECTS = ("scheduler", "no scheduler", "others", "stopped")
PROGRAM = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
while True:
    cuda.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(1 << 20))
    time.sleep(0.01)
"""


def used_by(program: Program | None, **changed: Any) -> Machine:
    """A machine where this is no client of the scheduler, and has a context."""
    seen = () if program is None else (program,)
    return replace(WELL, nvml=gpu(users=(User(13, "python", GIB),)), programs=seen, **changed)


@pytest.mark.parametrize(
    ("machine", "level", "what", "advice"),
    [
        (used_by(None), "note", "pid 13 (python) uses 1.0 GiB, and is no client", "nvshare-ctl run"),
        (
            used_by(replace(OURS, library=None)),
            "note",
            "what it has in memory can't be read",
            "sudo nvshare-ctl doctor",
        ),
        (used_by(replace(OURS, library=False, told_to=False)), "note", "without nvshare's library", "nvshare-ctl run"),
        (used_by(replace(OURS, library=False)), "note", "which it has not loaded", "doctor -- COMMAND"),
        (
            used_by(replace(OURS, scheduler_at="", run_dirs=("/tmp/x",))),
            "problem",
            "has nvshare's library, and no scheduler answers at /tmp/x, where it looks",
            "start nvshare-scheduler --run-dir /tmp/x: the program finds it by itself",
        ),
        (used_by(replace(OURS, scheduler_at=None)), "note", "whether it has a scheduler can't be seen", "sudo"),
        (used_by(replace(OURS, run_dirs=(), scheduler_at="")), "note", "can't be seen", "sudo"),
        (
            used_by(replace(OURS, scheduler_at="/tmp/x", scheduler_pid=78)),
            "note",
            "is for the scheduler at /tmp/x, not for the one at /run/nvshare",
            "--run-dir /tmp/x",
        ),
        (used_by(OURS, scheduler=scheduler(version="")), "note", "could not be asked", ""),
        (used_by(OURS), "note", "is no client of its scheduler at /run/nvshare", "the scheduler's log"),
        (used_by(replace(OURS, scheduler_at="/mounted")), "note", "is no client of its scheduler at /mounted", "log"),
    ],
)
def test_who_is_no_client(machine: Machine, level: str, what: str, advice: str) -> None:
    """Only a process without the library is told to be started by run."""
    (finding,) = others(machine)
    assert finding.level == level
    assert what in finding.what
    assert advice in finding.advice
    assert ("nvshare-ctl run" in finding.advice) == (advice == "nvshare-ctl run")


def test_a_program_without_a_context_waits_for_its_scheduler() -> None:
    """NVML does not show it, and shows nothing of it that has a scheduler."""
    waiting = replace(OURS, scheduler_at="", run_dirs=("/run/nvshare", "/tmp/nvshare-0"), named=False)
    (finding,) = others(replace(WELL, programs=(waiting,)))
    assert (finding.level, finding.subject) == (Level.PROBLEM, "no scheduler")
    assert "at /run/nvshare or /tmp/nvshare-0, where it looks" in finding.what
    assert not list(others(replace(WELL, programs=(OURS,))))


def test_who_is_stopped() -> None:
    """With the remedy: a signal's stop ends by a signal, a debugger's in the debugger."""
    by_signal, by_debugger = stopped(
        replace(
            WELL,
            stopped=(
                Stopped(5, "python a.py", "holds GPU 0", 2, False),
                Stopped(6, "python b.py", "is awaited on GPU 1", 0, True),
            ),
        )
    )
    assert by_signal.what == "pid 5 (python a.py) holds GPU 0 and is stopped (state T), 2 in line"
    assert by_signal.advice == "kill -CONT 5 lets it go on; or end it"
    assert by_debugger.what == "pid 6 (python b.py) is awaited on GPU 1 and is stopped by a debugger (state t)"
    assert {by_signal.level, by_debugger.level} == {Level.PROBLEM}


def test_who_cant_sleep() -> None:
    """One line for each reason, which is the scheduler's; a process on two devices is one."""
    swaps = admin_pb2.Client(pid=5, awake_reason="it uses CUDA IPC")
    devices = [
        admin_pb2.Device(clients=[swaps, admin_pb2.Client(pid=6, awake_reason="its memory does not swap")]),
        admin_pb2.Device(clients=[swaps, admin_pb2.Client(awake_reason="it uses CUDA IPC"), admin_pb2.Client(pid=7)]),
    ]
    seen = program_look.awake(admin_pb2.Status(devices=devices))
    assert seen == (Awake((5, 0), "it uses CUDA IPC"), Awake((6,), "its memory does not swap"))
    first, second = awake(replace(WELL, awake=seen))
    assert first.what == "pid 5, ? can't sleep: it uses CUDA IPC"
    assert (second.level, second.subject) == (Level.NOTE, "sleep")


@pytest.fixture
def program(environment: dict[str, str], run_dir: RunDir) -> Iterator[Callable[[], int]]:
    """Starts a program by nvshare-ctl run that uses a GPU, and answers its pid when it has a turn."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        command = [*COMMAND, "run", "--", sys.executable, "-c", PROGRAM]
        started.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
        poll_until(lambda: '"state": "holding"' in ctl(run_dir, "status", "-o", "json").stdout, "it holds the GPU", 30)
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def _findings(run_dir: RunDir, environment: dict[str, str], code: int = 0) -> list[dict[str, str]]:
    done = ctl(run_dir, "doctor", "-o", "json", **environment)
    assert done.returncode == code, done.stdout
    return [
        finding
        for finding in json.loads(done.stdout)["findings"]
        if finding["subject"] in _SUBJECTS and finding["level"] != "ok"
    ]


def test_a_dead_scheduler(
    run_dir: RunDir,
    environment: dict[str, str],
    start_scheduler: Callable[..., Any],
    program: Callable[[], int],
) -> None:
    """It is a problem, and so is each program that looks for it; when another one has come all is well."""
    dead = start_scheduler()
    pid = program()
    assert not _findings(run_dir, environment)
    dead.process.kill()
    stat = Path(f"/proc/{dead.process.pid}/stat")
    poll_until(lambda: ") Z " in stat.read_text(), "it is dead, and nobody has asked how it ended")
    found = {finding["subject"]: finding for finding in _findings(run_dir, environment, code=1)}
    assert found["scheduler"]["what"].startswith(
        f"none answers at {run_dir.root}: its pid {dead.process.pid} does not run"
    )
    assert f"pid {pid} " in found["no scheduler"]["what"]
    assert f"no scheduler answers at {run_dir.root}, where it looks" in found["no scheduler"]["what"]
    start_scheduler()
    poll_until(lambda: '"state": "holding"' in ctl(run_dir, "status", "-o", "json").stdout, "it is back", 30)
    assert not _findings(run_dir, environment)


def test_a_stopped_holder(
    run_dir: RunDir,
    environment: dict[str, str],
    start_scheduler: Callable[..., Any],
    program: Callable[[], int],
) -> None:
    """Doctor names it while it is stopped."""
    start_scheduler()
    pid = program()
    stop(pid)
    (finding,) = _findings(run_dir, environment, code=1)
    assert finding["subject"] == "stopped"
    assert f"pid {pid} " in finding["what"]
    os.kill(pid, signal.SIGCONT)
    assert not _findings(run_dir, environment)

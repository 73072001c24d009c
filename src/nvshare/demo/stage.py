"""The processes of a demo: a private scheduler, the jobs, and that all of them are gone afterwards."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from nvshare import paths
from nvshare.ctl import launch
from nvshare.ctl.errors import CommandError
from nvshare.demo.plan import Broken, Plan, Report, plan_to_text, report_from_line
from nvshare.demo.story import DeviceSeen

_GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The job's process is over."""

    exit_code: int


@dataclass(frozen=True, slots=True)
class FromJob:
    """What job number ``place`` said, or that it ended."""

    place: int
    report: Report | Ended


@dataclass(frozen=True, slots=True)
class Setup:
    """How the demo's jobs reach their devices and share them."""

    environment: Mapping[str, str]
    memory: str
    policy: str
    quantum_seconds: float


def devices(environment: Mapping[str, str]) -> list[DeviceSeen]:
    """The devices that a process with this environment finds."""
    probe = subprocess.run(
        [sys.executable, "-m", "nvshare.demo.probe"],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if probe.returncode != 0:
        reason = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
        raise CommandError(f"no device can be used: {reason}; without a GPU, run the demo without --real")
    return [DeviceSeen(**device) for device in json.loads(probe.stdout)]


@contextmanager
def scheduler(run_dir: paths.RunDir, setup: Setup) -> Iterator[None]:
    """A scheduler that accepts clients, for as long as the block lasts."""
    command = [sys.executable, "-m", "nvshare.scheduler", "--run-dir", os.fspath(run_dir.root)]
    command += ["--policy", setup.policy, "--quantum", f"{setup.quantum_seconds:g}"]
    # If this process is killed it can't end the scheduler, which then ends by itself.
    command += ["--exit-when-idle", str(launch.IDLE_SECONDS)]
    run_dir.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = run_dir.log_file
    with log.open("wb") as output, _process(command, setup.environment, output.fileno(), output.fileno()) as started:
        launch.wait_until_accepting(run_dir, lambda: started.poll() is None, log, 0)
        yield


@contextmanager
def jobs(plans: Sequence[Plan], environment: Mapping[str, str], log: Path) -> Iterator[tuple[list[int], Sayings]]:
    """The jobs' pids and what they say; those that still run when the block is left are ended."""
    sayings: Sayings = queue.SimpleQueue()
    pids: list[int] = []
    with log.open("wb") as errors:
        started: list[subprocess.Popen[bytes]] = []
        try:
            for place, plan in enumerate(plans):
                command = [sys.executable, "-m", "nvshare.demo.job", plan_to_text(plan)]
                process = _start(command, environment, subprocess.PIPE, errors.fileno())
                started.append(process)
                pids.append(process.pid)
                threading.Thread(target=_listen, args=(place, process, sayings), daemon=True).start()
            yield pids, sayings
        finally:
            for process in started:
                process.terminate()
            for process in started:
                _end(process)


Sayings = queue.SimpleQueue[FromJob]


def _listen(place: int, process: subprocess.Popen[bytes], sayings: Sayings) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            try:
                report = report_from_line(line.decode())
            except ValueError as error:
                report = Broken(str(error))
            sayings.put(FromJob(place, report))
    sayings.put(FromJob(place, Ended(process.wait())))


@contextmanager
def _process(
    command: list[str], environment: Mapping[str, str], stdout: int, stderr: int
) -> Iterator[subprocess.Popen[bytes]]:
    process = _start(command, environment, stdout, stderr)
    try:
        yield process
    finally:
        process.terminate()
        _end(process)


def _start(command: list[str], environment: Mapping[str, str], stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches the demo alone, which then ends its processes in order.
    return subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into SystemExit, so that whoever ends the demo also ends its processes."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    former = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)

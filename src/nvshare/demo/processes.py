"""The processes of a demo: a private scheduler and the jobs. All of them have ended when the demo ends."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nvshare import paths, scheduler_process
from nvshare.demo.errors import DemoError
from nvshare.demo.plan import EVENTS, Broken, Event, Kind, Plan, event_from_line, plan_to_text
from nvshare.demo.report import DeviceInfo
from nvshare.scheduler_process import SchedulerStartError

_GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The job's process is over."""

    exit_code: int


@dataclass(frozen=True, slots=True)
class JobEvent:
    """What happened to one job."""

    place: int
    """The job's place in the list of plans."""
    event: Event | Ended


@dataclass(frozen=True, slots=True)
class Setup:
    """How the demo's jobs reach their devices and share them."""

    environment: Mapping[str, str]
    memory: str
    policy: str
    quantum_seconds: float
    reserve_bytes: int | None = None
    """What the scheduler keeps free on each device; None: what it chooses."""
    sleep_after_seconds: float | None = None
    """None: programs sleep only if others lack memory."""


def devices(environment: Mapping[str, str]) -> list[DeviceInfo]:
    """The devices that a process with this environment finds."""
    done = subprocess.run(
        [sys.executable, "-m", "nvshare.demo.device_list"],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise DemoError(f"no device can be used: {reason}; without a GPU, run the demo without --real")
    return [DeviceInfo(**device) for device in json.loads(done.stdout)]


@contextmanager
def scheduler(run_dir: paths.RunDir, setup: Setup) -> Iterator[None]:
    """A scheduler that accepts clients, for as long as the block lasts."""
    # If this process is killed it can't end the scheduler, which then ends by itself.
    idle = ("--exit-when-idle", str(scheduler_process.EXIT_WHEN_IDLE_SECONDS))
    sharing = ("--policy", setup.policy, "--quantum", f"{setup.quantum_seconds:g}")
    reserve = () if setup.reserve_bytes is None else ("--reserve", f"{setup.reserve_bytes >> 10}KiB")
    sleep = () if setup.sleep_after_seconds is None else ("--sleep-after", f"{setup.sleep_after_seconds:g}")
    command = scheduler_process.command(run_dir, *sharing, *reserve, *sleep, *idle)
    run_dir.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = run_dir.log_file
    with log.open("wb") as output, process(command, setup.environment, output.fileno(), output.fileno()) as started:
        try:
            scheduler_process.wait_until_accepting(run_dir, lambda: started.poll() is None, log)
        except SchedulerStartError as error:
            raise DemoError(str(error)) from error
        yield


@contextmanager
def jobs(plans: Sequence[Plan], environment: Mapping[str, str], log: Path) -> Iterator[tuple[list[int], JobEvents]]:
    """The jobs' pids and their events; those that still run when the block is left are ended."""
    events: JobEvents = queue.SimpleQueue()
    pids: list[int] = []
    with log.open("wb") as errors:
        started: list[subprocess.Popen[bytes]] = []
        try:
            for place, plan in enumerate(plans):
                command = [sys.executable, "-m", "nvshare.demo.job", plan_to_text(plan)]
                process = start(command, environment, subprocess.PIPE, errors.fileno())
                started.append(process)
                pids.append(process.pid)
                threading.Thread(target=_read_events, args=(place, process, events), daemon=True).start()
            yield pids, events
        finally:
            for process in started:
                process.terminate()
            for process in started:
                end(process)


JobEvents = queue.SimpleQueue[JobEvent]


def _read_events(place: int, process: subprocess.Popen[bytes], events: JobEvents) -> None:
    for event in events_of(process, EVENTS):
        events.put(JobEvent(place, event))


def events_of(process: subprocess.Popen[bytes], kinds: Sequence[type[Kind]]) -> Iterator[Kind | Broken | Ended]:
    """What a process reports, of these kinds, as it comes."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            try:
                yield event_from_line(line.decode(), kinds)
            except ValueError as error:
                yield Broken(str(error))
    yield Ended(process.wait())


@contextmanager
def process(
    command: list[str], environment: Mapping[str, str], stdout: int, stderr: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the demo, for as long as the block lasts."""
    process = start(command, environment, stdout, stderr)
    try:
        yield process
    finally:
        process.terminate()
        end(process)


def start(command: list[str], environment: Mapping[str, str], stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    """A process of the demo, with nothing to read."""
    # A session of its own: Ctrl-C reaches the demo alone, which then ends its processes in order.
    return subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Returns when it is over; it was told to end."""
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

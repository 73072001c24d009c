"""A program that is stopped (Ctrl-Z) and holds nothing, but has its memory on the GPU: real programs, real library."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.pipes import said_to_the_end
from tests.polling import poll_until
from tests.scheduler.swapping_programs import Program, Serve, Start, device, ends_well, line, programs, tell
from tests.scheduler.wire_client import Scheduler
from tests.stopping import stop

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

DEVICES = "1GiB/32MiB"
SERVED = ("--quantum", "0.3", "--host-memory", "6GiB", "--reserve", "32MiB", "--grace", "1", "--policy", "exclusive")


@pytest.fixture
def served(serve: Serve, tmp_path: Path) -> Callable[..., Scheduler]:
    """Starts a scheduler that sees the simulated GPU."""
    seen = simgpu.environment(tmp_path / "simgpu", DEVICES)
    return lambda *options: serve(*SERVED, *options, environment=seen)


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """See ``programs``."""
    with programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as begin:
        yield begin


def stopped(scheduler: Scheduler, start: Start) -> Program:
    """A program with most of the GPU's memory that has worked and stands still."""
    program = start(700, 1, asked=True)
    assert line(program) == "written"
    other = start(20, 1)
    ends_well(other)
    poll_until(lambda: [client.state for client in device(scheduler).clients] == ["idle"], "it holds nothing", 20)
    stop(program.pid)
    return program


def notices(scheduler: Scheduler, program: Program) -> list[str]:
    return [notice for client in device(scheduler).clients if client.pid == program.pid for notice in client.notices]


def test_it_is_shown_and_who_waits_is_told(served: Callable[..., Scheduler], start: Start) -> None:
    """As unresponsive and as stopped, with what makes it go on; and when it does, all end well."""
    scheduler = served()
    stands = stopped(scheduler, start)
    waits = start(700, 1)
    remedy = f"kill -CONT {stands.pid}"
    poll_until(lambda: any(remedy in notice for notice in notices(scheduler, stands)), "it is shown", 60)
    poll_until(
        lambda: {client.pid: client.state for client in device(scheduler).clients}[stands.pid] == "unresponsive",
        "it is late",
        60,
    )
    [logged] = scheduler.logged("client does not give its memory up")
    assert logged["pid"] == stands.pid
    assert waits.stderr is not None
    assert remedy in next(said for said in waits.stderr if "for the lock" in said)
    stands.send_signal(signal.SIGCONT)
    tell(stands)
    ends_well(waits)
    assert said_to_the_end(stands, 60)[0].splitlines()[-1:] == ["right"]


def test_it_is_killed_where_the_operator_chose_so(served: Callable[..., Scheduler], start: Start) -> None:
    """And who waited goes on."""
    scheduler = served("--unresponsive", "kill")
    stands = stopped(scheduler, start)
    ends_well(start(700, 1))
    assert stands.wait(20) == -signal.SIGKILL
    [logged] = scheduler.logged("killed a client whose memory kept others waiting")
    assert logged["pid"] == stands.pid

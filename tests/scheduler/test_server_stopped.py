"""A scheduler that stood still for a while (SIGSTOP, a starved node) blames nobody for what it did not hear."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import LD_PRELOAD, RUN_DIR, RunDir
from nvshare.protocol import wire
from nvshare.simgpu import record
from nvshare.simgpu.turns import overlaps
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.wire_client import DEVICE, GIB, Scheduler
from tests.stopping import stop

Serve = Callable[..., Scheduler]
Start = Callable[..., "subprocess.Popen[str]"]

GRACE = 1.0
KILLS = ("--policy", "exclusive", "--quantum", "0.1", "--grace", str(GRACE), "--unresponsive", "kill")
RETURN = 2.0
"""Seconds that a holder has to come back."""
PROGRAM = """
import os, signal, sys
from tests.simgpu.device import Device, call
device = Device.open()
print("there", flush=True)
sys.stdin.readline()
device.spin(float(sys.argv[1]))
print("launched", flush=True)
if sys.argv[2:] == ["loses its connection"]:
    sys.stdin.readline()
    for number in os.listdir("/proc/self/fd"):
        if os.path.exists(f"/proc/self/fd/{number}") and os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            os.close(int(number))
    os.kill(os.getpid(), signal.SIGSTOP)
call("cuCtxSynchronize")
"""


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Start]:
    """Starts a program that runs one kernel of so many seconds when it is told to go on."""
    variables = simgpu.environment(tmp_path / "simgpu") | {
        LD_PRELOAD: str(libraries.shim),
        RUN_DIR: str(run_dir.root / "run"),
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(seconds: float, *more: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", PROGRAM, str(seconds), *more]
            process = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert said(process) == "there"
            return process

        yield begin


@contextmanager
def standing_still(scheduler: Scheduler, seconds: float) -> Iterator[None]:
    """The scheduler does, from before the block until so long after it began, or after its end."""
    stop(scheduler.process.pid)
    end = time.monotonic() + seconds
    yield
    poll_until(lambda: time.monotonic() > end, "the time is over", seconds + 5)
    scheduler.process.send_signal(signal.SIGCONT)


def said(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def go_on(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def asked_to_leave(scheduler: Scheduler) -> bool:
    return "leaving" in scheduler.states().values()


def blames_nobody(scheduler: Scheduler) -> bool:
    blames = ("holder does not give the lock back", "killed a holder that kept others waiting")
    return not [line for line in scheduler.log() if line["event"] in blames]


@pytest.mark.parametrize("others", [0, 60])
def test_who_answered_in_time(serve: Serve, others: int) -> None:
    """A holder that gave the lock back while nobody listened is not late, however many others had something to say."""
    scheduler = serve(*KILLS)
    with ClientProcess() as process:
        crowd = scheduler.clients_of_others(others, 1) if others else []
        for client in crowd:
            client.register()
        holder = process.connect(scheduler).register()
        grant = holder.lock()
        waiter = scheduler.client().register()
        waiter.send(wire.ReqLock())
        holder.expect_drop()
        with standing_still(scheduler, GRACE + 1):
            for client in crowd:
                for size in range(40):
                    client.send(wire.Footprint(size))
            holder.send(wire.LockReleased(grant))
        waiter.expect(wire.LockOk)
        assert blames_nobody(scheduler)
        assert process.process.poll() is None


def test_who_did_not_run_either(serve: Serve) -> None:
    """On a node that was frozen nobody could answer: that time does not count."""
    grace = 3.0
    scheduler = serve(*KILLS, "--grace", str(grace))
    with ClientProcess() as process:
        holder = process.connect(scheduler).register()
        grant = holder.lock()
        waiter = scheduler.client().register()
        waiter.send(wire.ReqLock())
        holder.expect_drop()
        with standing_still(scheduler, grace + 1):
            pass
        poll_until(lambda: scheduler.states()[holder.client_id] == "leaving", "it goes on")
        holder.send(wire.LockReleased(grant))
        waiter.expect(wire.LockOk)
        assert blames_nobody(scheduler)


def test_who_came_back_in_time(serve: Serve) -> None:
    """A holder that connected again while nobody listened still holds: nobody runs beside it."""
    scheduler = serve("--policy", "exclusive", "--quantum", "100")
    with ClientProcess() as process:
        holder = process.connect(scheduler).register()
        grant = holder.lock()
        waiter = scheduler.client().register()
        waiter.send(wire.ReqLock())
        holder.close()
        poll_until(lambda: scheduler.status().devices[0].awaited, "its connection is lost")
        with standing_still(scheduler, RETURN + 1):
            back = process.connect(scheduler)
            back.send(wire.Register(DEVICE, 16 * GIB, wire.State.HOLDING, wire.Backend.NATIVE, grant=grant))
        back.expect(wire.SchedOn)
        assert sorted(scheduler.states().values()) == ["holding", "waiting"]
        assert waiter.has_nothing()


def test_a_program_that_left_in_time(serve: Serve, start: Start) -> None:
    """The library has drained a kernel while the scheduler stood still; the program is not killed."""
    scheduler = serve(*KILLS, "--grace", "4")
    holder, waiter = start(3.0), start(0.05)
    go_on(holder)
    assert said(holder) == "launched"
    go_on(waiter)
    poll_until(lambda: asked_to_leave(scheduler), "it is asked to leave", 20)
    with standing_still(scheduler, 5.0):
        pass
    assert [program.wait(30) for program in (waiter, holder)] == [0, 0]
    assert blames_nobody(scheduler)


def test_a_program_that_came_back_in_time(serve: Serve, start: Start, tmp_path: Path) -> None:
    """Its kernel still runs: the other one's does not begin before that is over."""
    scheduler = serve("--policy", "exclusive")
    holder, waiter = start(8.0, "loses its connection"), start(0.05)
    go_on(holder)
    assert said(holder) == "launched"
    go_on(waiter)
    poll_until(lambda: sorted(scheduler.states().values()) == ["holding", "waiting"], "the other one waits", 20)
    go_on(holder)
    poll_until(lambda: scheduler.status().devices[0].awaited, "its connection is lost", 20)
    with standing_still(scheduler, RETURN + 1):
        holder.send_signal(signal.SIGCONT)
    assert [program.wait(60) for program in (waiter, holder)] == [0, 0]
    spans = record.read(tmp_path / "simgpu", 0)
    assert len([span for span in spans if span.name == "nvs_spin"]) == 2
    assert overlaps(spans) == []

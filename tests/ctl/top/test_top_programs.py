"""What the keys of ``nvshare-ctl top`` do with the program that is chosen, and how much of its turns it uses."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator

import pytest

import build_native
from nvshare.admin import admin_pb2
from nvshare.ctl.top.sections import section
from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, environment
from tests.ctl.terminal import Terminal, in_session
from tests.ctl.top.test_top import shows, top
from tests.ctl.top.test_top_sections import crowded, look
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler

IDLES = (
    "import time\n"
    "from tests.simgpu.device import Device, allocate\n"
    "device = Device.open(); allocate(100 << 20)\n"
    "while True: device.spin(0.02); time.sleep(0.2)\n"
)


@pytest.fixture
def scheduler(run_dir: RunDir) -> Iterator[Scheduler]:
    """A scheduler with one client, this process."""
    with Scheduler(run_dir.root / "run") as scheduler:
        scheduler.client().register()
        yield scheduler


def _line(terminal: Terminal) -> str:
    """The client's."""
    return next((line for line in terminal.lines() if f"{os.getpid()} " in line and "idle" in line), "")


def _terms(scheduler: Scheduler) -> admin_pb2.Terms:
    """Of the client."""
    return scheduler.status().devices[0].clients[0].terms


def test_priority(scheduler: Scheduler) -> None:
    """``r`` and a letter, of the program that the arrows chose; d takes it back."""
    with top(scheduler.run_dir) as terminal:
        shows(terminal, "idle")
        terminal.press(b"r")
        shows(terminal, "no program is chosen: left and right choose one")
        terminal.press(b"\x1b[C")
        poll_until(lambda: re.search(rf">  {os.getpid()}", _line(terminal)), "it is marked")
        terminal.press(b"r")
        shows(terminal, f"priority of pid:{os.getpid()}@", "l low, n normal, h high")
        terminal.press(b"h")
        shows(terminal, ": high")
        poll_until(lambda: _terms(scheduler).priority == "high", "the scheduler has it")
        terminal.press(b"rd")
        shows(terminal, ": taken back")
        poll_until(lambda: _terms(scheduler).priority == "normal", "the scheduler has it")


def test_anything_else(scheduler: Scheduler) -> None:
    """``s``, then as nvshare-ctl set has it; what means nothing sets nothing and is said, and so is what is refused."""
    with top(scheduler.run_dir, columns=120) as terminal:
        shows(terminal, "idle")
        terminal.press(b"\x1b[Ds")
        shows(terminal, f"set of pid:{os.getpid()}@")
        terminal.press(b"weight 22\x7f.5")
        shows(terminal, "weight 2.5_")
        terminal.press(b"\r")
        shows(terminal, ": 2.5", "weight 2.5")
        poll_until(lambda: _terms(scheduler).weight == 2.5, "the scheduler has it")
        terminal.press(b"sheight 2\r")
        shows(terminal, "'height' is none of weight, priority, compute-limit")
        terminal.press(b"spriority urgent\r")
        shows(terminal, "urgent")
        terminal.press(b"smemory-request 2Gi\r")
        poll_until(lambda: _terms(scheduler).memory_request_bytes == 2 << 30, "the scheduler has it")
        terminal.press(b"smemory-limit 1Gi\r")
        shows(terminal, "is above the memory limit of")
        terminal.press(b"sweight 9\x1b")
        shows(terminal, "q quit")
        assert _terms(scheduler).weight == 2.5


@pytest.mark.parametrize("chosen", [1, 7, 19])
def test_the_chosen_one_is_shown(chosen: int) -> None:
    """Where not all have room it is among them."""
    marked = look()
    lines = section(crowded(), seen=no_turns(), look=type(marked)(160, marked.colors, {}, chosen=chosen), height=12)
    (line,) = [line.plain for line in lines if ">" in line.plain]
    assert f"{100 + chosen}" in line
    assert len(lines) <= 12
    assert "more" in lines[-1].plain


def no_turns() -> admin_pb2.Timeline:
    """A history of nothing."""
    return admin_pb2.Timeline()


@pytest.mark.usefixtures("libraries")
def test_an_idle_program_does_not_use_its_time(run_dir: RunDir) -> None:
    """It holds all the time, since nobody else wants the GPU, and uses a tenth of that."""
    folder, more = str(run_dir.root / "gpus"), {"PYTHONPATH": f"{build_native.ROOT}:{build_native.SOURCES}"}
    simulated = [*COMMAND, "simulate", "--gpus", "1x1GiB/32MiB", "--dir", folder, "--"]
    program = [*simulated, *COMMAND, "run", "--", sys.executable, "-c", IDLES]
    with in_session(program, environment(run_dir, TERM="xterm", **more)):
        try:
            poll_until(run_dir.admin_socket.exists, "its scheduler is there", timeout=60)
            command = [*simulated, *COMMAND, "top", "--interval", "0.1"]
            with in_session(command, environment(run_dir, TERM="xterm-256color", **more), 140, 24) as terminal:
                assert poll_until(lambda: _used(terminal), "top says how much it uses", timeout=30) < 40
        finally:
            os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)


def _used(terminal: Terminal) -> int:
    """In percent; 0: not said."""
    screen = terminal.screen()
    found = re.search(r"holding .* (\d+)% +(\d+)% ", screen) if "USED" in screen else None
    return int(found[2]) if found else 0

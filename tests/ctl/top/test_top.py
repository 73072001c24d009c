"""``nvshare-ctl top`` in a terminal, with a real scheduler: what it shows, what its keys do, and how it ends."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.another_user import as_user
from tests.ctl.program import COMMAND, ctl, environment
from tests.ctl.terminal import Terminal, in_session
from tests.polling import poll_until
from tests.scheduler.wire_client import GIB, Scheduler

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
SPIN = (
    "from tests.simgpu.device import Device, allocate\n"
    "device = Device.open(); allocate(700 << 20)\n"
    "while True: device.spin(0.05)\n"
)


@pytest.fixture
def scheduler(run_dir: RunDir) -> Iterator[Scheduler]:
    """A scheduler with nobody connected."""
    with Scheduler(run_dir.root / "run", "--quantum", "20") as scheduler:
        yield scheduler


@contextmanager
def top(
    run_dir: RunDir, *options: str, interval: str = "0.1", columns: int = 80, lines: int = 24, **more: str
) -> Iterator[Terminal]:
    """The program in a terminal of this size, when it has drawn what the scheduler says."""
    command = [*COMMAND, "top", "--interval", interval, *options]
    variables = environment(run_dir, TERM="xterm-256color", **more)
    with in_session(command, variables, columns, lines) as terminal:
        shows(terminal, "nvshare 0", "quit")
        yield terminal


def shows(terminal: Terminal, *texts: str) -> None:
    """Waits until all are on the screen."""
    poll_until(lambda: all(text in terminal.screen() for text in texts), f"{texts} on the screen", timeout=30)


def resident(terminal: Terminal) -> list[str]:
    """What the idle clients have on their GPUs, in the order of their lines."""
    return re.findall(r"idle +(\d\.\d GiB)", terminal.screen())


def restored(terminal: Terminal, before: list[object]) -> None:
    """The terminal is as it was before the program had it; what it wrote last may still be on its way."""
    assert terminal.modes() == before

    def is_given_back() -> bool:
        output, pairs = terminal.output(), ((ENTER, LEAVE), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?7l", "\x1b[?7h"))
        return all(0 <= output.rfind(taken) < output.rfind(given_back) for taken, given_back in pairs)

    poll_until(is_given_back, "the terminal is given back")


def holder_and_waiter(scheduler: Scheduler) -> None:
    """Two clients that don't fit the device together."""
    first = scheduler.client().register(footprint_bytes=9 * GIB)
    second = scheduler.client().register(footprint_bytes=10 * GIB)
    first.lock()
    second.send(wire.ReqLock())
    first.expect(wire.Waiters)


def uuid(number: int) -> bytes:
    """A device's; people see it as GPU-, the digit eight times, and so on."""
    return bytes([number * 0x11]) * 16


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (160, 50), (40, 10)])
def test_fits_the_terminal(scheduler: Scheduler, columns: int, lines: int) -> None:
    """Holder, queue, policy and quantum; no line is longer than the terminal is wide, and there is one for each row."""
    holder_and_waiter(scheduler)
    with top(scheduler.run_dir, columns=columns, lines=lines) as terminal:
        shows(terminal, "auto", "20 s")
        assert len(terminal.lines()) == lines
        assert all(len(line) <= columns for line in terminal.lines())
        assert terminal.lines()[-1].startswith("q quit")
        if columns >= 80:
            shows(terminal, "holding", "waiting", "in line: ", "9.0 GiB", "10.0 GiB", "█")
            # The turn goes on: one sign after the other.
            poll_until(lambda: re.search(r"\d+ \S+ .*·+.*[▐▌█]", terminal.screen()), "the turn is in the history", 30)


def test_programs_on_simulated_gpus(run_dir: RunDir) -> None:
    """Programs that share simulated GPUs are there with pid, user, memory and what they hold."""
    folder, more = str(run_dir.root / "gpus"), {"PYTHONPATH": f"{build_native.ROOT}:{build_native.SOURCES}"}
    simulated = [*COMMAND, "simulate", "--gpus", "2x1GiB/32MiB", "--dir", folder, "--", *COMMAND]
    program = [*simulated, "run", "--weight", "3", "--", sys.executable, "-c", SPIN]
    with in_session(program, environment(run_dir, TERM="xterm", **more)) as first:
        try:
            poll_until(run_dir.admin_socket.exists, "its scheduler is there", timeout=60)
            with top(run_dir, "--device", "0", columns=140) as terminal:
                shows(terminal, "NVIDIA Simulated GPU, 1.0 GiB", "700 MiB", "weight 3", "holding")
                assert re.search(rf"█  {first.process.pid}  \w+ .* 700 MiB", terminal.screen())
                assert "GPU 1" not in terminal.screen()
        finally:
            os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)


def test_keys_set_policy_and_quantum(scheduler: Scheduler) -> None:
    """``p`` and a letter, ``+`` and ``-``: the scheduler has it, and the screen says so; other letters set nothing."""
    scheduler.client().register()
    with top(scheduler.run_dir) as terminal:
        shows(terminal, "auto, 20 s")
        terminal.press(b"p")
        shows(terminal, "a auto, e exclusive, o off")
        terminal.press(b"x")
        shows(terminal, "q quit")
        terminal.press(b"pe")
        shows(terminal, ": exclusive")
        poll_until(lambda: scheduler.status().devices[0].policy == "exclusive", "the scheduler has it")
        terminal.press(b"+")
        shows(terminal, "exclusive, 30 s", ": 30 s")
        terminal.press(b"---")
        shows(terminal, "exclusive, 10 s", ": 10 s")
        assert scheduler.status().devices[0].quantum_seconds == 10


def test_keys_choose_and_sort(scheduler: Scheduler) -> None:
    """Arrows and tab go round the GPUs; ``m`` sorts by memory; ``?`` explains; space stops the clock and starts it."""
    for number in range(2):
        scheduler.client().register(device_uuid=uuid(number), footprint_bytes=GIB)
    scheduler.client().register(device_uuid=uuid(0), footprint_bytes=3 * GIB)
    with top(scheduler.run_dir, columns=100) as terminal:
        shows(terminal, ">  GPU-00")
        for key, chosen in ((b"\x1b[B", 1), (b"\t", 0), (b"\x1b[A", 1), (b"\x1bOA", 0)):
            terminal.press(key)
            shows(terminal, f">  GPU-{chosen}{chosen}")
        assert resident(terminal) == ["1.0 GiB", "3.0 GiB", "1.0 GiB"]
        terminal.press(b"m")
        poll_until(lambda: resident(terminal) == ["3.0 GiB", "1.0 GiB", "1.0 GiB"], "the largest is first")
        terminal.press(b"?")
        shows(terminal, "its policy: then a auto")
        terminal.press(b" ")
        shows(terminal, "q quit")
        terminal.press(b" ")
        shows(terminal, "PAUSED")
        scheduler.client().register(device_uuid=uuid(7), footprint_bytes=GIB)
        terminal.press(b"\t")
        shows(terminal, ">  GPU-11")
        assert "GPU-77" not in terminal.screen()
        terminal.press(b" ")
        shows(terminal, "GPU-77")
        terminal.press(b"q")
        assert terminal.process.wait(20) == 0


def test_whoever_may_not_command_is_told(run_dir: RunDir) -> None:
    """A user who may look and not command sees everything, and one line when a key would set something."""
    with Scheduler(run_dir.root / "system") as scheduler:
        scheduler.client().register()
        folder = run_dir.root / "system" / "admin"
        command = [*as_user(run_dir.root / "system"), *COMMAND, "top", "--interval", "0.1"]
        # Root passes every mode unless it gives that right up.
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
        variables = environment(run_dir, XDG_RUNTIME_DIR=str(run_dir.root), TERM="xterm-256color")
        variables[paths.RUN_DIR] = ""
        folder.chmod(0)
        try:
            with in_session(command, variables) as terminal:
                shows(terminal, "auto, 30 s")
                terminal.press(b"+")
                shows(terminal, "not permitted: only the scheduler's own user sets anything")
                terminal.press(b"q")
                assert terminal.process.wait(20) == 0
                assert "Traceback" not in terminal.output()
        finally:
            folder.chmod(0o700)
        assert scheduler.status().devices[0].quantum_seconds == 30


def test_resize(scheduler: Scheduler) -> None:
    """A window of another size is drawn anew, whole, at once."""
    holder_and_waiter(scheduler)
    with top(scheduler.run_dir, interval="60") as terminal:
        for columns, lines in ((132, 40), (60, 15)):
            terminal.resize(columns, lines)
            poll_until(lambda lines=lines: len(terminal.lines()) == lines, "as many lines as there are now")  # type: ignore[misc]
            assert max(map(len, terminal.lines())) <= columns


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_restore_the_terminal(scheduler: Scheduler, number: signal.Signals) -> None:
    """The program ends by the signal, as it would by itself, and leaves the terminal as it was."""
    command = [*COMMAND, "top"]
    with in_session(command, environment(scheduler.run_dir, TERM="xterm-256color")) as terminal:
        before = terminal.modes()
        shows(terminal, "q quit")
        assert terminal.modes() != before
        terminal.process.send_signal(number)
        assert terminal.process.wait(20) == -number
        restored(terminal, before)
        assert "Traceback" not in terminal.output()


def test_signals_at_the_same_time(scheduler: Scheduler) -> None:
    """As from a terminal that is closed by who ends the program, too: it ends by one of them, without a word."""
    with in_session([*COMMAND, "top"], environment(scheduler.run_dir, TERM="xterm-256color")) as terminal:
        before = terminal.modes()
        shows(terminal, "q quit")
        for number in (signal.SIGSTOP, signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            terminal.process.send_signal(number)
        assert terminal.process.wait(20) != 0
        restored(terminal, before)
        assert "Traceback" not in terminal.output()
        assert "ignored" not in terminal.output()


def test_a_terminal_that_takes_nothing(scheduler: Scheduler) -> None:
    """A signal ends it also while it waits for a terminal that nobody reads, such as a connection that hangs."""
    holder_and_waiter(scheduler)
    with in_session(
        [*COMMAND, "top", "--interval", "0.1"], environment(scheduler.run_dir, TERM="xterm"), 300, 90
    ) as own:
        poll_until(lambda: in_write(own.process.pid), "it waits in a write", timeout=30, interval=0.2)
        own.process.send_signal(signal.SIGTERM)
        assert own.process.wait(20) == -signal.SIGTERM


def in_write(pid: int) -> bool:
    """Whether a process's first thread waits in a write to its standard output."""
    now = Path(f"/proc/{pid}/syscall").read_text().split()
    return now[0] in ("1", "64") and now[1] == "0x1"


def test_ctrl_c(scheduler: Scheduler) -> None:
    """Exit code 130, as of the other commands, and the terminal as it was."""
    with in_session([*COMMAND, "top"], environment(scheduler.run_dir, TERM="xterm-256color")) as terminal:
        before = terminal.modes()
        shows(terminal, "q quit")
        terminal.press(b"\x03")
        assert terminal.process.wait(20) == 130
        restored(terminal, before)
        assert "Traceback" not in terminal.output()


def test_an_error_restores_the_terminal(scheduler: Scheduler) -> None:
    """Also a mistake of the program's own leaves a terminal in which its traceback can be read."""
    code = (
        "from nvshare.ctl.top import screen\n"
        "def fail(*arguments): raise RuntimeError('a mistake')\n"
        "screen.Screen._bottom = fail\n"
        "from nvshare.ctl.__main__ import main\n"
        "main()\n"
    )
    variables = environment(scheduler.run_dir, TERM="xterm-256color")
    with in_session([sys.executable, "-c", code, "top"], variables) as terminal:
        before = terminal.modes()
        assert terminal.process.wait(30) == 1
        restored(terminal, before)
        poll_until(lambda: "a mistake" in terminal.output(), "the traceback")
        assert terminal.output().index(LEAVE) < terminal.output().index("a mistake")


def test_sleep_and_wake(scheduler: Scheduler) -> None:
    """Ctrl-Z gives the shell its terminal; ``fg`` draws everything again; at the end the terminal is as it was."""
    variables = environment(scheduler.run_dir, TERM="xterm-256color", PS1="ready> ")
    with in_session(["bash", "--norc", "--noediting", "-i"], variables) as terminal:
        poll_until(lambda: "ready> " in terminal.output(), "the shell's prompt")
        before = terminal.modes()
        terminal.press(shlex.join([*COMMAND, "top"]).encode() + b"\n")
        shows(terminal, "q quit")
        terminal.press(b"\x1a")
        poll_until(lambda: "Stopped" in terminal.output(), "the shell has the terminal", timeout=20)
        restored(terminal, before)
        drawn = len(terminal.output())
        terminal.press(b"fg\n")
        poll_until(lambda: "q quit" in terminal.output()[drawn:], "it is drawn again", timeout=20)
        assert ENTER in terminal.output()[drawn:]
        drawn = len(terminal.output())
        terminal.press(b"q")
        poll_until(lambda: "ready> " in terminal.output()[drawn:], "the shell's prompt", timeout=20)
        restored(terminal, before)


def test_nobody_to_wake_it(scheduler: Scheduler) -> None:
    """Without a shell nothing can stop it: Ctrl-Z draws everything again."""
    with top(scheduler.run_dir, interval="60") as terminal:
        drawn = len(terminal.output())
        terminal.press(b"\x1a")
        poll_until(lambda: "q quit" in terminal.output()[drawn:], "it is drawn again", timeout=20)
        assert terminal.output().rindex(LEAVE) < terminal.output().rindex(ENTER)


def test_scheduler_that_goes_and_comes(run_dir: RunDir) -> None:
    """It says that the scheduler is gone, and goes on with the next one."""
    with Scheduler(run_dir.root / "run") as scheduler, top(scheduler.run_dir) as terminal:
        scheduler.kill()
        shows(terminal, "waiting for it to come back")
        with Scheduler(run_dir.root / "run", "--quantum", "7") as successor:
            shows(terminal, "nvshare 0")
            successor.client().register()
            shows(terminal, "auto, 7 s")


def test_a_quantum_of_half_a_day(run_dir: RunDir) -> None:
    """Some turns would be more than a scheduler remembers: the history is shown all the same."""
    with Scheduler(run_dir.root / "run", "--quantum", "43200") as scheduler:
        client = scheduler.client().register(footprint_bytes=9 * GIB)
        with top(scheduler.run_dir) as terminal:
            shows(terminal, "auto, 43200 s")
            client.lock()
            poll_until(lambda: re.search(r"\d+ \S+ .*·+.*[▐▌█]", terminal.screen()), "the turn is in the history", 30)


def test_no_colors(scheduler: Scheduler) -> None:
    """With NO_COLOR there is none, and the parts of the memory differ by their signs."""
    holder_and_waiter(scheduler)
    with top(scheduler.run_dir, columns=120, NO_COLOR="1") as terminal:
        shows(terminal, "▓", "█", "▒ pinned")
        assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7])", terminal.output())


@pytest.mark.parametrize("more", [{}, {"TERM": "dumb"}], ids=["pipe", "dumb"])
def test_no_terminal(scheduler: Scheduler, more: dict[str, str]) -> None:
    """One line that names what to use, and exit code 1."""
    if more:
        with in_session([*COMMAND, "top"], environment(scheduler.run_dir, **more)) as terminal:
            assert terminal.process.wait(30) == 1
            said = terminal.output()
    else:
        done = ctl(scheduler.run_dir, "top")
        assert (done.returncode, done.stdout) == (1, "")
        said = done.stderr
    assert "top needs a terminal" in said
    assert "status --watch" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--device", "9"], 1, "device '9' is unknown"),
        (["--device", ""], 1, "device '' is unknown"),
        (["--interval", "0.01"], 2, "0.01 s is not allowed; from 0.1 to 3600 s is"),
        (["--interval", "1e12"], 2, "1e12 s is not allowed"),
        (["--interval", "nan"], 2, "'nan'"),
        (["--run-dir", "/nonexistent"], 3, "no scheduler runs"),
    ],
)
def test_wrong_command_lines(scheduler: Scheduler, arguments: list[str], code: int, said: str) -> None:
    """They end before the terminal is touched."""
    done = ctl(scheduler.run_dir, "top", *arguments)
    assert done.returncode == code
    assert said in done.stderr

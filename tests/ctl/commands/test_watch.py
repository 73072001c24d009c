"""``nvshare-ctl status --watch``: every change, also over a restart of the scheduler."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, example, serving
from tests.ctl.program import COMMAND, environment
from tests.ctl.terminal import in_terminal
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler
from tests.stopping import stop

Reader = Callable[[], str]


@contextmanager
def watching(run_dir: RunDir, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Reader]]:
    """The command with its output on a pipe; the reader returns everything that came so far."""
    with subprocess.Popen(
        [*COMMAND, "status", "--watch", *options],
        env=environment(run_dir),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        output = process.stdout.fileno()
        os.set_blocking(output, False)
        seen = bytearray()
        try:
            yield process, lambda: _read(output, seen)
        finally:
            process.kill()


def _read(descriptor: int, seen: bytearray) -> str:
    """Everything that came so far."""
    with suppress(OSError):
        seen += os.read(descriptor, 1 << 20)
    return seen.decode(errors="replace")


def test_survives_the_scheduler(run_dir: RunDir) -> None:
    """One document a line; the scheduler ends: one line on stderr; another one comes: its documents follow."""
    with ExitStack() as stack:
        with serving(run_dir, Answers(example())):
            process, read = stack.enter_context(watching(run_dir, "-o", "json"))
            poll_until(lambda: "\n" in read(), "the first document")
        later = example()
        later.scheduler_pid = 978
        with serving(run_dir, Answers(later)):
            poll_until(lambda: read().count("\n") >= 2, "a document of the new scheduler")
            pids = [json.loads(line)["scheduler_pid"] for line in read().splitlines()]
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        assert pids == [977, 978]
        assert process.stderr is not None
        said = rb"nvshare-ctl: the scheduler is gone since \d\d:\d\d:\d\d; waiting for it to come back\n"
        assert len(re.findall(said, process.stderr.read())) == 1


def test_live_in_a_terminal(run_dir: RunDir) -> None:
    """In a terminal the clocks go on while nothing changes, and Ctrl-C ends it quietly."""
    command = [*COMMAND, "status", "--watch"]
    with (
        serving(run_dir, Answers(example())),
        in_terminal(command, environment(run_dir, TERM="xterm-256color")) as terminal,
    ):
        poll_until(lambda: len(set(re.findall(r"1[789]\.\d s", terminal.output()))) > 1, "a holder's time goes on", 30)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(10) == 130
        assert "Traceback" not in terminal.output()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_signals_restore_the_terminal(run_dir: RunDir, number: signal.Signals) -> None:
    """It ends by the signal, as it would by itself, and the cursor is there again."""
    command = [*COMMAND, "status", "--watch"]
    with (
        serving(run_dir, Answers(example())),
        in_terminal(command, environment(run_dir, TERM="xterm-256color")) as terminal,
    ):
        poll_until(lambda: "quantum" in terminal.output(), "the state", 30)
        terminal.process.send_signal(number)
        assert terminal.process.wait(10) == (130 if number == signal.SIGINT else -number)
        output = terminal.output()
        assert 0 <= output.rfind("\x1b[?25l") < output.rfind("\x1b[?25h")
        assert "Traceback" not in output


def test_a_terminal_that_cannot_draw_over_what_is_there(run_dir: RunDir) -> None:
    """It gets the state once more after each change, as a file does."""
    answers = Answers(example())
    with (
        serving(run_dir, answers),
        in_terminal([*COMMAND, "status", "--watch"], environment(run_dir, TERM="dumb")) as terminal,
    ):
        poll_until(lambda: "quantum" in terminal.output(), "the state")
        answers.status.devices[0].quantum_seconds = 77
        answers.changed.set()
        poll_until(lambda: "quantum 77 s" in terminal.output(), "the state after a change")
        assert "\x1b" not in terminal.output()


def test_scheduler_that_does_not_answer(run_dir: RunDir) -> None:
    """A stopped scheduler is named, with since when and its remedy; clocks stand still until it is back."""
    with Scheduler(run_dir.root / "run") as scheduler:
        scheduler.client().register().lock()
        command = [*COMMAND, "status", "--watch"]
        variables = environment(scheduler.run_dir, TERM="xterm-256color")
        with in_terminal(command, variables) as terminal:
            poll_until(lambda: "holding" in terminal.output(), "the status is shown")
            stop(scheduler.process.pid)
            said = f"the scheduler is stopped (kill -CONT {scheduler.process.pid}) and has not answered since"
            poll_until(lambda: said in terminal.output(), "it is said", timeout=30)
            before = len(terminal.output())
            poll_until(lambda: terminal.output().count("has not answered", before) >= 3, "it was drawn again")
            # What was read before may have ended in the middle of a number.
            later = terminal.output()[before:].partition("has not answered")[2]
            drawn = re.findall(r"([0-9.]+) s\s+0\.0 s", later)
            assert len(set(drawn)) == 1, "the holder's time stands still"
            scheduler.process.send_signal(signal.SIGCONT)
            seen = len(terminal.output())
            poll_until(
                lambda: "has not answered" not in _last_screen(terminal.output()[seen:]), "it is back", timeout=30
            )


def _last_screen(output: str) -> str:
    """What was drawn last: the live display begins each drawing at the version's line of the one before."""
    return output.rpartition("nvshare-scheduler ")[0].rpartition("nvshare-scheduler ")[2] or "has not answered"


def test_silence_is_one_line(run_dir: RunDir) -> None:
    """Not in a terminal: one line on stderr with the time of day, then the next document when it is back."""
    with Scheduler(run_dir.root / "run") as scheduler, watching(scheduler.run_dir, "-o", "json") as (process, read):
        poll_until(lambda: read().count("\n") == 1, "the first document")
        stop(scheduler.process.pid)
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert re.fullmatch(
            rf"nvshare-ctl: the scheduler is stopped \(kill -CONT {scheduler.process.pid}\) and has not answered since "
            r"\d\d:\d\d:\d\d; waiting for it to come back\n",
            line,
        )
        scheduler.process.send_signal(signal.SIGCONT)
        poll_until(lambda: read().count("\n") == 2, "a document", timeout=30)

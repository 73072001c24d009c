"""Signals for the command that doctor looks at: it has them as without doctor, and the report comes all the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, environment
from tests.ctl.terminal import in_session
from tests.polling import poll_until

pytestmark = pytest.mark.usefixtures("libraries", "accepting")

PROGRAM = """
import signal
waited_for = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
print("begun", flush=True)
number = 0
while number != signal.SIGTERM:
    number = signal.sigwait(waited_for)
    print("heard", int(number), flush=True)
raise SystemExit(7)
"""


def looked_at(report: Path) -> list[str]:
    """The command line."""
    options = ["-o", "json", "--output-file", str(report)]
    return [*COMMAND, "doctor", *options, "--", sys.executable, "-c", PROGRAM]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1])
def test_for_doctor_alone(run_dir: RunDir, tmp_path: Path, number: signal.Signals) -> None:
    """As ``kill -INT`` sends it: the command gets it, once."""
    report = tmp_path / "report.json"
    with subprocess.Popen(looked_at(report), env=environment(run_dir), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        # Of what waits, what has the lower number is passed on first.
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read().split() == ["heard", str(int(number)), "heard", "15"]
        assert process.wait(20) == 7
    assert json.loads(report.read_text())["exit_code"] == 7


def test_of_the_terminal(run_dir: RunDir, tmp_path: Path) -> None:
    """Ctrl-C reaches the command by itself, and is not passed on besides."""
    with in_session(looked_at(tmp_path / "report.json"), environment(run_dir)) as terminal:
        poll_until(lambda: "begun" in terminal.output(), "the command has begun", 30)
        terminal.press(b"\x03")
        poll_until(lambda: "heard 2" in terminal.output(), "the command heard it")
        # Of what waits, what has the lower number is passed on first.
        terminal.process.send_signal(signal.SIGTERM)
        poll_until(lambda: "heard 15" in terminal.output(), "the command is ended")
        assert terminal.process.wait(20) == 7
        assert terminal.output().count("heard 2") == 1

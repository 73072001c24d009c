"""A scheduler that somebody stopped: whatever asks it names that, and what lets it go on."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, ctl, environment
from tests.ctl.terminal import in_session, in_terminal
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler
from tests.stopping import stop

COMMANDS = [["status"], ["timeline"], ["set", "quantum", "3"], ["sleep", "chat"]]


@pytest.mark.usefixtures("libraries")
def test_it_is_named(run_dir: RunDir) -> None:
    """The commands say it in one line, doctor as a problem."""
    with Scheduler(run_dir.root / "run") as scheduler, ThreadPoolExecutor(len(COMMANDS) + 1) as pool:
        stop(scheduler.process.pid)
        pid, asked = scheduler.process.pid, scheduler.run_dir
        doctor = pool.submit(ctl, asked, "doctor", "-o", "json")
        for done in pool.map(lambda words: ctl(asked, *words), COMMANDS):
            what = f"the scheduler at {asked.admin_socket}, pid {pid}, is stopped (SIGSTOP or Ctrl-Z)"
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr == f"nvshare-ctl: {what}; it goes on with: kill -CONT {pid}\n"
        findings = json.loads(doctor.result().stdout)["findings"]
    (said,) = [finding["what"] for finding in findings if finding["subject"] == "scheduler"]
    assert f"{what}; it goes on with: kill -CONT {pid}" == said


@pytest.mark.usefixtures("libraries")
def test_run_names_it(run_dir: RunDir) -> None:
    """The command is started all the same: it may not need the GPU yet, and goes on with the scheduler."""
    with Scheduler(run_dir.root / "run") as scheduler:
        stop(scheduler.process.pid)
        pid, asked = scheduler.process.pid, scheduler.run_dir
        done = ctl(asked, "run", "--", "echo", "started")
        what = f"the scheduler at {asked.client_socket}, pid {pid}, is stopped (SIGSTOP or Ctrl-Z)"
        assert (done.returncode, done.stdout) == (0, "started\n")
        assert done.stderr == f"nvshare-ctl: programs wait: {what}; it goes on with: kill -CONT {pid}\n"


def test_top_names_it(run_dir: RunDir) -> None:
    """While it is shown, and where it can't be shown at all, in the line that other commands have."""
    with Scheduler(run_dir.root / "run") as scheduler:
        command, variables = [*COMMAND, "top"], environment(scheduler.run_dir, TERM="xterm-256color")
        pid = scheduler.process.pid
        with in_session(command, variables, 80, 24) as running:
            poll_until(lambda: "No device yet" in running.screen(), "it is shown")
            stop(pid)
            what = f"the scheduler is stopped (kill -CONT {pid}) and has not answered since"
            poll_until(lambda: what in running.screen(), "it is said", timeout=30)
        with in_terminal(command, variables) as late:
            poll_until(lambda: f"kill -CONT {pid}" in late.output(), "it is said", timeout=30)
            assert late.process.wait(timeout=10) == 1
            assert "No device yet" not in late.output()

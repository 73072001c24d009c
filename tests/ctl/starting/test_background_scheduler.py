"""``nvshare-ctl run`` without a scheduler: it starts one, one only, which stays while it is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, ctl, environment
from tests.polling import poll_until

pytestmark = pytest.mark.usefixtures("libraries")


@pytest.fixture(autouse=True)
def no_scheduler_stays(run_dir: RunDir) -> Iterator[None]:
    """Ends the scheduler that the test started in the background."""
    yield
    if run_dir.pid_file.exists():
        pid = int(run_dir.pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        poll_until(lambda: not run_dir.pid_file.exists(), "the scheduler ended")


def scheduler_pid(run_dir: RunDir) -> int:
    """The pid of the scheduler that answers."""
    pid: int = json.loads(ctl(run_dir, "status", "-o", "json").stdout)["scheduler_pid"]
    return pid


def test_starts_one(run_dir: RunDir) -> None:
    """One line names its pid and log; the next command finds it and says nothing."""
    first = ctl(run_dir, "run", "--", "true")
    pid = scheduler_pid(run_dir)
    assert first.returncode == 0
    assert first.stderr == (f"nvshare-ctl: started a scheduler in the background (pid {pid}, log {run_dir.log_file})\n")
    second = ctl(run_dir, "run", "--", "true")
    assert (second.returncode, second.stderr) == (0, "")


def test_two_at_once(run_dir: RunDir) -> None:
    """Commands that begin at the same moment share one scheduler."""
    processes = [
        subprocess.Popen([*COMMAND, "run", "--", "true"], env=environment(run_dir), stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum("started a scheduler" in text for text in said) == 1
    assert f"pid {scheduler_pid(run_dir)}," in "".join(said)


def test_is_no_child(run_dir: RunDir) -> None:
    """The command finds no child that it did not make."""
    done = ctl(run_dir, "run", "--", sys.executable, "-c", "import os; os.wait()")
    assert "ChildProcessError" in done.stderr


def test_where_few_files_may_be_open(run_dir: RunDir) -> None:
    """``ulimit -n 64``: the command has its scheduler, and the lock that keeps it."""
    shell = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *COMMAND, "run", "--", "sh", "-c", "echo /proc/self/fd/*"]
    done = subprocess.run(shell, env=environment(run_dir), capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "/proc/self/fd/32" in done.stdout) == (0, True), done.stderr


def test_is_kept_while_a_program_lives(run_dir: RunDir) -> None:
    """A started program, and every child of it, holds the lock that keeps an idle scheduler from ending."""
    process = subprocess.Popen(
        [*COMMAND, "run", "--", "sh", "-c", "sleep 60 & echo $!"],
        env=environment(run_dir),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert not _lockable(run_dir.programs_lock)
        os.kill(child, signal.SIGTERM)
        poll_until(lambda: _lockable(run_dir.programs_lock), "the lock is free")


def _lockable(path: Path) -> bool:
    return subprocess.run(["flock", "--nonblock", path, "true"], check=False).returncode == 0


def test_start_fails(run_dir: RunDir) -> None:
    """A scheduler that can't start: the end of its log is shown, exit code 125, the command is not started."""
    run_dir.root.joinpath("client").write_text("in the way")
    done = ctl(run_dir, "run", "--", "echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert str(run_dir.log_file) in done.stderr
    assert "client" in done.stderr.split("log", 1)[1]


def test_unwritable(run_dir: RunDir) -> None:
    """A run directory that can't be made is named with the remedy."""
    blocked = run_dir.root / "file"
    blocked.write_text("")
    done = ctl(run_dir, "run", "--run-dir", str(blocked / "below"), "--", "true")
    assert done.returncode == 125
    assert f"{blocked}/below can't be written" in done.stderr
    assert "choose another --run-dir" in done.stderr


def test_a_run_directory_whose_name_is_too_long(run_dir: RunDir) -> None:
    """For a socket: it is named with the remedy."""
    done = ctl(run_dir, "run", "--run-dir", str(run_dir.root / ("x" * 100)), "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert "scheduler.sock can't be used (AF_UNIX path too long); choose another --run-dir" in done.stderr


def test_unknown_command_starts_nothing(run_dir: RunDir) -> None:
    """A typing error costs no background process."""
    assert ctl(run_dir, "run", "--", "no-such-command-anywhere").returncode == 127
    assert not run_dir.pid_file.exists()

"""Which process is meant by a pid, and whether it can still do something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare.scheduler.pods.processes import lives, start_time


def test_a_process_that_lives() -> None:
    """Only the one that started then."""
    started = start_time(os.getpid())
    assert started
    assert lives(os.getpid(), started)
    assert not lives(os.getpid(), started + 1)


def test_a_process_that_has_ended() -> None:
    """Also while its parent has not taken note of it."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    with process:
        started = start_time(process.pid)
        assert lives(process.pid, started)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not lives(process.pid, started)
    assert not lives(process.pid, started)
    assert start_time(process.pid) == 0


@pytest.mark.parametrize(("flags", "alive"), [(0x400040, True), (0x400044, False)])
def test_a_process_that_is_ending(tmp_path: Path, flags: int, alive: bool) -> None:
    """The kernel closes the files of a process that ends when it is marked as ending; nothing of it comes back."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a ) name) R 1 7 7 0 -1 {flags} {'0 ' * 12} 99 0\n")
    assert start_time(7, tmp_path) == 99
    assert lives(7, 99, tmp_path) is alive


def test_hidden_pids() -> None:
    """Of a process that can't be seen nothing is known."""
    assert start_time(0) == 0
    assert not lives(0, 0)

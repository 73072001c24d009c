"""Stops a process as Ctrl-Z would. The signal alone returns before its threads stand still."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.polling import poll_until


def stop(pid: int) -> None:
    """Returns when every thread of the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    poll_until(lambda: set(_states(pid)) <= {"T"}, f"process {pid} stands still", interval=0.0005)


def _states(pid: int) -> list[str]:
    found = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            found.append(stat.read_text(errors="replace").rpartition(") ")[2][0])
    return found

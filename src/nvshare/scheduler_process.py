"""A scheduler as a process that another program starts: its command line, and when it accepts clients."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nvshare.paths import RunDir
from nvshare.unix_sockets import distrust

EXIT_WHEN_IDLE_SECONDS = 60
"""A scheduler that another program started ends by itself this long after its last client."""

START_DEADLINE_SECONDS = 15.0
"""A scheduler that accepts no clients after this time counts as not started."""

_OTHER_SCHEDULER_SECONDS = 2.0
_POLL_SECONDS = 0.02
_LOG_LINES = 5


class SchedulerStartError(Exception):
    """There is no scheduler that accepts clients; the text says why."""


def command(run_dir: RunDir, *options: str) -> list[str]:
    """The command line of a scheduler for this run directory."""
    return [sys.executable, "-m", "nvshare.scheduler", "--run-dir", os.fspath(run_dir.root), *options]


def accepts(path: Path) -> bool:
    """Whether a process accepts connections at this socket now; SchedulerStartError for a path that can't be used."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.fspath(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError as error:
            raise SchedulerStartError(
                f"the scheduler's socket {path} can't be used ({error.strerror or error}); choose another --run-dir"
            ) from error
    return True


def answers(run_dir: RunDir) -> bool:
    """Whether a scheduler accepts clients there; a place that can't be looked at or believed has none for this user."""
    try:
        return not distrust(run_dir.root) and accepts(run_dir.client_socket)
    except (SchedulerStartError, OSError):
        return False


def only_for_clients(run_dir: RunDir) -> bool:
    """Whether a scheduler answers there of whose run directory only the clients' folder is here, as in a container."""
    folders = run_dir.status_socket.parent, run_dir.admin_socket.parent
    return answers(run_dir) and not any(folder.exists() for folder in folders)


def wait_until_accepting(run_dir: RunDir, alive: Callable[[], bool], log: Path, written: int = 0) -> None:
    """Returns when a scheduler accepts clients; SchedulerStartError when the one that was started can't.

    ``alive`` says whether that one still runs. What it logs is in ``log``, after the first ``written`` bytes.
    """
    start = time.monotonic()
    ended: float | None = None
    while not accepts(run_dir.client_socket):
        now = time.monotonic()
        if ended is None and not alive():
            # Another program may have started a scheduler at the same moment, which accepts clients soon.
            ended = now
        if now > start + START_DEADLINE_SECONDS or (ended is not None and now > ended + _OTHER_SCHEDULER_SECONDS):
            raise _not_started(ended is not None, log, written)
        time.sleep(_POLL_SECONDS)


def _not_started(ended: bool, log: Path, written: int) -> SchedulerStartError:
    what = "ended at once" if ended else f"accepts no clients after {START_DEADLINE_SECONDS:g} s"
    lines = log.read_bytes()[written:].decode(errors="replace").splitlines()[-_LOG_LINES:]
    if not lines and (reason := _unwritable(log)):
        return SchedulerStartError(
            f"the scheduler that was started {what}, and its log {log} can't be written: {reason}; "
            "make room there or choose another --run-dir"
        )
    tail = "\n".join(f"  {line}" for line in lines) or "  (empty)"
    return SchedulerStartError(f"the scheduler that was started {what}; the end of its log {log}:\n{tail}")


def _unwritable(log: Path) -> str:
    """Why nothing can be added to a file; empty: it can. Only an attempt tells: a quota may be full, too."""
    try:
        with log.open("ab", buffering=0) as file:
            file.write(b"\n")
    except OSError as error:
        return error.strerror or str(error)
    return ""

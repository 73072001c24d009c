"""A scheduler that serves the machine before the service does: root's, by ``nvshare-ctl run`` or by hand."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from nvshare.ctl.errors import CommandError
from nvshare.paths import RunDir
from nvshare.unix_sockets import listening_pid

_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.05


def end(run_dir: RunDir) -> None:
    """Ends it, and returns when it has ended: its programs wait for the next. CommandError if it does not end."""
    pid = _listening(run_dir)
    if not pid:
        return
    if "kubepods" in _cgroup(pid):
        raise CommandError(f"Kubernetes runs this machine's scheduler (pid {pid}): it serves all users already")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _SECONDS
    while _listening(run_dir) == pid:
        if time.monotonic() > deadline:
            raise CommandError(
                f"the scheduler that serves {run_dir.root}, pid {pid}, has not ended {_SECONDS:g} s after SIGTERM; "
                f"end it: kill -9 {pid}"
            )
        time.sleep(_POLL_SECONDS)


def _listening(run_dir: RunDir) -> int:
    with suppress(OSError):
        return listening_pid(run_dir.client_socket) or 0
    return 0


def _cgroup(pid: int) -> str:
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "cgroup").read_text()
    return ""

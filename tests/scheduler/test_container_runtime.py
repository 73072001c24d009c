"""A scheduler whose container nobody looks after any more makes way for the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nvshare import scheduler_process
from nvshare.paths import RunDir
from nvshare.unix_sockets import listening_pid
from tests.polling import poll_until
from tests.scheduler.cgroup import new_cgroup

_STARTER = """
import subprocess, sys
join, *command = sys.argv[1:]
subprocess.run(["sh", "-c", join + 'exec "$@"', "sh", *command])
"""


@contextmanager
def orphaned(environment: dict[str, str], run_dir: RunDir, join: str = "") -> Iterator[int]:
    """A scheduler whose parent was killed: its pid. ``join``: what a shell does before it becomes the scheduler."""
    command = [sys.executable, "-c", _STARTER, join, *scheduler_process.command(run_dir)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as starter:
        try:
            pid = poll_until(lambda: listening_pid(run_dir.client_socket), "the scheduler answers", timeout=30)
        finally:
            starter.kill()
    # Nobody reads what it says any more, as when a runtime has died.
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        poll_until(lambda: listening_pid(run_dir.client_socket) is None, "it has ended")


def test_the_runtime_of_a_container_is_killed(environment: dict[str, str], run_dir: RunDir) -> None:
    """The scheduler ends by itself and clears the run directory."""
    with new_cgroup() as cgroup, orphaned(environment, run_dir, f'echo $$ > "{cgroup.folder}/cgroup.procs"; '):
        poll_until(lambda: listening_pid(run_dir.client_socket) is None, "it has ended")
        poll_until(lambda: not run_dir.pid_file.exists(), "its files are cleared away")


def test_a_shell_is_killed(environment: dict[str, str], run_dir: RunDir) -> None:
    """It has looked after nothing: the scheduler goes on looking at its files, and serves."""
    with orphaned(environment, run_dir) as pid:
        for _ in range(2):
            run_dir.pid_file.unlink()
            poll_until(run_dir.pid_file.exists, "the file is there again")
        assert listening_pid(run_dir.client_socket) == pid

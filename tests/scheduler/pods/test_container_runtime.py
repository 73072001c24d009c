"""A scheduler whose container nobody looks after any more makes way for the next one."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nvshare import scheduler_process
from nvshare.paths import RunDir
from nvshare.scheduler.pods.container_runtime import ContainerRuntime
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
    container = f"kubepods-pod{uuid.uuid4()}.slice:cri-containerd:{secrets.token_hex(32)}"
    with (
        new_cgroup(container) as cgroup,
        orphaned(environment, run_dir, f'echo $$ > "{cgroup.folder}/cgroup.procs"; '),
    ):
        poll_until(lambda: listening_pid(run_dir.client_socket) is None, "it has ended")
        poll_until(lambda: not run_dir.pid_file.exists(), "its files are cleared away")


def test_a_shell_is_killed(environment: dict[str, str], run_dir: RunDir) -> None:
    """It has looked after nothing: the scheduler goes on looking at its files, and serves."""
    with orphaned(environment, run_dir) as pid:
        for _ in range(2):
            run_dir.pid_file.unlink()
            poll_until(run_dir.pid_file.exists, "the file is there again")
        assert listening_pid(run_dir.client_socket) == pid


@pytest.mark.parametrize(
    ("own", "parent", "is_container"),
    [
        ("0::/", "0::/../../../system.slice/containerd.service", True),
        ("0::/", "0::/", False),
        ("0::/user.slice/user-0.slice/session-1.scope", "0::/user.slice/user-0.slice/user@0.service/init.scope", False),
        ("0::/system.slice/nvshare-scheduler.service", "0::/init.scope", False),
    ],
    ids=["a container with a cgroup namespace", "a shell in it", "adopted by a session manager", "a service"],
)
def test_the_parent_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, parent: str, is_container: bool
) -> None:
    """It is a loss only where it was outside of a container that this process is in."""
    pids = iter((7, 1))
    monkeypatch.setattr(os, "getppid", lambda: next(pids))
    for process, cgroup in (("self", own), ("7", parent)):
        (tmp_path / process).mkdir()
        (tmp_path / process / "cgroup").write_text(f"{cgroup}\n")
    runtime = ContainerRuntime(tmp_path)
    assert bool(runtime.loss()) is is_container

"""Everybody on a machine shares its scheduler: a user who is not root finds the system's first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nvshare.paths import RUN_DIR, RunDir
from tests.another_user import UID, as_user
from tests.ctl.program import COMMAND, environment
from tests.scheduler.wire_client import GIB, Scheduler

pytestmark = pytest.mark.usefixtures("libraries")


@pytest.fixture
def system(run_dir: RunDir) -> Iterator[Scheduler]:
    """A scheduler that the user finds as the system's."""
    with Scheduler(run_dir.root / "system") as scheduler:
        yield scheduler


@pytest.fixture
def own(run_dir: RunDir) -> RunDir:
    """The user's own run directory."""
    return RunDir(run_dir.root / "nvshare")


def user_ctl(run_dir: RunDir, *arguments: str, locked: bool = True) -> subprocess.CompletedProcess[str]:
    """nvshare-ctl of a user; ``locked``: the admin socket's folder is closed to it as to everybody but root."""
    folder = run_dir.root / "system" / "admin"
    command = [*as_user(run_dir.root / "system"), *COMMAND, *arguments]
    variables = environment(run_dir, XDG_RUNTIME_DIR=str(run_dir.root))
    variables[RUN_DIR] = ""
    if locked:
        folder.chmod(0)
        # Root passes every mode unless it gives that right up.
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    try:
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)
    finally:
        if locked:
            folder.chmod(0o700)


def test_every_user_sees_the_status(run_dir: RunDir, system: Scheduler) -> None:
    """What the system's scheduler shows root it shows a user who may not command it."""
    system.client().register(footprint_bytes=3 * GIB).lock()
    done = user_ctl(run_dir, "status", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert shown["scheduler_pid"] == system.process.pid
    assert [client["state"] for client in shown["devices"][0]["clients"]] == ["holding"]


def test_a_user_may_not_command(run_dir: RunDir, system: Scheduler) -> None:
    """One line that says what is needed, and exit code 4; nothing is set."""
    done = user_ctl(run_dir, "set", "quantum", "3")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no permission to command the scheduler at /var/run/nvshare/admin/admin.sock" in done.stderr
    assert "sudo nvshare-ctl" in done.stderr
    assert done.stderr.count("\n") == 1


def test_run_uses_the_systems(run_dir: RunDir, system: Scheduler, own: RunDir) -> None:
    """No scheduler of the user's own is started, and the program is left to find the system's itself."""
    done = user_ctl(run_dir, "run", "--", "sh", "-c", f"id -u; echo dir=${RUN_DIR}")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{UID}\ndir=\n", "")
    assert not own.root.exists()


def test_the_systems_comes_before_a_running_own(run_dir: RunDir, system: Scheduler, own: RunDir) -> None:
    """With two that answer, status and run mean the system's."""
    with Scheduler(own.root) as mine:
        shown = json.loads(user_ctl(run_dir, "status", "-o", "json").stdout)
        assert shown["scheduler_pid"] == system.process.pid != mine.process.pid


def test_own_where_the_systems_is_gone(run_dir: RunDir, system: Scheduler, own: RunDir) -> None:
    """What the system's left behind is no scheduler: the user's own is asked, and may be commanded."""
    system.kill()
    with Scheduler(own.root) as mine:
        shown = json.loads(user_ctl(run_dir, "status", "-o", "json").stdout)
        assert shown["scheduler_pid"] == mine.process.pid
        assert user_ctl(run_dir, "set", "quantum", "3").returncode == 0
    done = user_ctl(run_dir, "status")
    assert done.returncode == 3
    for place in ("/var/run/nvshare/admin/admin.sock", str(own.admin_socket)):
        assert place in done.stderr


def test_own_scheduler_beside_the_systems(run_dir: RunDir, system: Scheduler) -> None:
    """A user who starts a scheduler by hand is told that programs won't use it."""
    scheduler = [sys.executable, "-m", "nvshare.scheduler", "--exit-when-idle", "0", "--log-format", "json"]
    variables = {**environment(run_dir, XDG_RUNTIME_DIR=str(run_dir.root)), RUN_DIR: ""}
    command = [*as_user(run_dir.root / "system"), *scheduler]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)
    warnings = [line for line in map(json.loads, done.stderr.splitlines()) if line["level"] == "warning"]
    assert [(line["event"], line["run_dir"]) for line in warnings] == [
        ("another scheduler serves this machine, and programs go to that one", "/var/run/nvshare")
    ]
    system.terminate()
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert "another scheduler" not in done.stderr

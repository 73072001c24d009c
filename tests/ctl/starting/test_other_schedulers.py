"""``nvshare-ctl run`` and ``doctor`` where a scheduler serves the GPUs from another place."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.device_uuid import device_bytes
from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.ctl.program import COMMAND, environment
from tests.polling import poll_until
from tests.real_user import as_root
from tests.scheduler.several_schedulers import SYSTEM, Machine
from tests.scheduler.wire_client import GIB, Scheduler

pytestmark = as_root

ALICE = 40000 + os.getpid() % 10000
"""Nobody else's, since the user has a folder in /tmp."""
BOB = 50000 + os.getpid() % 10000
SAY = ("run", "--", "sh", "-c", f"echo dir=${paths.RUN_DIR}")


@pytest.fixture
def machine(run_dir: RunDir, libraries: Libraries) -> Iterator[Machine]:
    """One whose schedulers end with the test, those in the background too."""
    temporary = RunDir(Path(f"/tmp/nvshare-{ALICE}"))
    with Machine(run_dir.root) as machine:
        yield machine
    for started in (temporary, *map(RunDir, run_dir.root.glob("*/nvshare"))):
        if started.pid_file.exists():
            os.kill(int(started.pid_file.read_text()), signal.SIGTERM)
            poll_until(lambda place=started: not place.pid_file.exists(), "the scheduler ended")  # type: ignore[misc]
    shutil.rmtree(temporary.root, ignore_errors=True)


def ctl(machine: Machine, uid: int, runtime: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """nvshare-ctl of a user, in an environment with or without XDG_RUNTIME_DIR."""
    variables = {**environment(RunDir(machine.root)), **machine.environment, paths.RUN_DIR: ""}
    if runtime is not None:
        variables["XDG_RUNTIME_DIR"] = str(runtime)
    return subprocess.run(
        [*machine.user(uid), *COMMAND, *arguments],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def use(scheduler: Scheduler, gpus: int = 1) -> list[str]:
    """A client on so many of its GPUs, whose UUIDs are the answer."""
    used = sorted(scheduler.status().devices, key=lambda device: device.index)[:gpus]
    for device in used:
        scheduler.client().register(device_uuid=device_bytes(device.uuid), footprint_bytes=GIB >> 4)
    return [device.uuid for device in used]


def test_ssh_beside_cron(machine: Machine) -> None:
    """One user with two environments has one scheduler, which stays while programs of either live."""
    from_cron = ctl(machine, ALICE, None, *SAY)
    assert f"log /tmp/nvshare-{ALICE}/" in from_cron.stderr
    from_ssh = ctl(machine, ALICE, machine.folder("session", ALICE), *SAY)
    assert (from_ssh.stdout, from_ssh.stderr) == ("dir=\n", "")
    assert not (machine.root / "session" / "nvshare").exists()


def test_ones_own_elsewhere_is_found(machine: Machine) -> None:
    """A user's scheduler in a folder where this environment would not look is found by what it claims."""
    scheduler = machine.begin("elsewhere", ALICE)
    use(scheduler)
    done = ctl(machine, ALICE, machine.folder("session", ALICE), *SAY)
    assert (done.stdout, done.stderr) == (f"dir={scheduler.run_dir.root}\n", "")


def test_another_users(machine: Machine) -> None:
    """With all GPUs another user's nothing is started: whose they are is said, and what to do. With one it is noted."""
    scheduler = machine.begin("alice", ALICE)
    one = use(scheduler)
    session = machine.folder("session", BOB)
    done = ctl(machine, BOB, session, *SAY)
    whose = f"user {ALICE}'s scheduler, pid {scheduler.process.pid}, run directory {scheduler.run_dir.root}"
    assert (done.returncode, done.stdout) == (0, "dir=\n")
    assert f"programs wait on GPUs that have another scheduler ({one[0]}: {whose})" in done.stderr
    os.kill(int(RunDir(session / "nvshare").pid_file.read_text()), signal.SIGTERM)
    poll_until(lambda: not RunDir(session / "nvshare").pid_file.exists(), "the second scheduler ended")
    both = use(scheduler, 2)
    done = ctl(machine, BOB, session, *SAY)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"no scheduler can be started, since each GPU has one: {', '.join(sorted(both))}: {whose}" in done.stderr
    assert "sudo nvshare-ctl service install" in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_names_the_other_one(machine: Machine) -> None:
    """Doctor says which scheduler has a GPU beside the one that it found, or where it found none."""
    alices = machine.begin("alice", ALICE)
    (one,) = use(alices)
    done = ctl(machine, BOB, machine.folder("session", BOB), "doctor", "-o", "json")
    findings = [each for each in json.loads(done.stdout)["findings"] if each["subject"] == "other scheduler"]
    (finding,) = findings
    assert finding["level"] == "problem"
    assert finding["what"].startswith(f"{one}: user {ALICE}'s scheduler, pid {alices.process.pid}")
    machines = machine.begin(SYSTEM)
    done = ctl(machine, BOB, machine.folder("session", BOB), "doctor", "-o", "json")
    assert "other scheduler" in {each["subject"] for each in json.loads(done.stdout)["findings"]}
    alices.kill()
    use(machines)
    done = ctl(machine, BOB, machine.folder("session", BOB), "doctor", "-o", "json")
    assert "other scheduler" not in {each["subject"] for each in json.loads(done.stdout)["findings"]}

"""nvsharectl: the original's command line, and what it says is so."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import grpc
import pytest

from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, example
from tests.ctl.program import environment
from tests.scheduler.wire_client import Scheduler


def nvsharectl(run_dir: RunDir, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    command = [sys.executable, "-m", "nvshare.ctl.nvsharectl", *arguments]
    return subprocess.run(command, env=environment(run_dir), capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def scheduler(run_dir: RunDir) -> Iterator[Scheduler]:
    """One with a device of which the policy is exclusive."""
    with Scheduler(run_dir.root / "run", "--policy", "exclusive") as scheduler:
        scheduler.client().register()
        yield scheduler


@pytest.mark.parametrize("arguments", [("-T", "10"), ("--set-tq=10",), ("--set-tq=0xa",), ("--set-tq", "10")])
def test_quantum(run_dir: RunDir, answers: Answers, arguments: tuple[str, ...]) -> None:
    """Each form of the original's is understood; the quantum of all devices is set, and that is said."""
    done = nvsharectl(run_dir, *arguments)
    assert (done.returncode, done.stdout) == (0, "Successfully set the nvshare-scheduler TQ to 10 seconds.\n")
    assert answers.asked == [admin_pb2.SetQuantumRequest(seconds=10)]


def test_very_long_quantum(run_dir: RunDir, answers: Answers) -> None:
    """The original's guide recommends a very large one for batches: the longest is set, and a line says so."""
    done = nvsharectl(run_dir, "-T", "1000000000")
    assert (done.returncode, done.stdout) == (0, "Successfully set the nvshare-scheduler TQ to 86400 seconds.\n")
    assert done.stderr == "nvsharectl: the longest TQ is 86400 seconds, and 1000000000 are more: setting 86400\n"
    assert answers.asked == [admin_pb2.SetQuantumRequest(seconds=86400)]


@pytest.mark.parametrize("switch", ["off", "on"])
@pytest.mark.parametrize("form", [("-S", "{}"), ("--anti-thrash={}",)])
def test_switch(run_dir: RunDir, answers: Answers, form: tuple[str, ...], switch: str) -> None:
    """As in the original; said only when the scheduler has done it."""
    done = nvsharectl(run_dir, *(part.format(switch) for part in form))
    assert (done.returncode, done.stdout) == (0, f"Successfully turned the nvshare-scheduler {switch}.\n")
    assert answers.asked == [admin_pb2.SetSchedulingRequest(on=switch == "on")]


def test_both(run_dir: RunDir, answers: Answers) -> None:
    """The status first, as in the original."""
    assert nvsharectl(run_dir, "-T", "5", "-S", "off").returncode == 0
    assert answers.asked == [admin_pb2.SetSchedulingRequest(on=False), admin_pb2.SetQuantumRequest(seconds=5)]


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_help(run_dir: RunDir, arguments: tuple[str, ...]) -> None:
    """What there is, also without any option; exit code 0."""
    done = nvsharectl(run_dir, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    for option in ("-T, --set-tq", "-S, --anti-thrash", "-h, --help"):
        assert option in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-T", "0"), "'0' is no positive whole number"),
        (("-T", "-3"), "'-3' is no positive whole number"),
        (("-T", "2.5"), "'2.5' is no positive whole number"),
        (("-T", "\u0663"), "'\u0663' is no positive whole number"),
        (("-T", "1_0"), "'1_0' is no positive whole number"),
        (("-S", "maybe"), "maybe"),
        (("--frob",), "--frob"),
    ],
)
def test_wrong_command_line(run_dir: RunDir, answers: Answers, arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2, and the scheduler is not asked."""
    done = nvsharectl(run_dir, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert answers.asked == []


@pytest.mark.parametrize("arguments", [("-T", "7"), ("-S", "off")])
def test_what_is_not_done_is_no_success(run_dir: RunDir, arguments: tuple[str, str]) -> None:
    """Without a scheduler nothing is said to have succeeded; exit code 3."""
    done = nvsharectl(run_dir, *arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.match(r"nvsharectl: no scheduler runs", done.stderr)


def test_refused(run_dir: RunDir, answers: Answers) -> None:
    """What the scheduler refuses is one line in its words, exit code 1."""
    answers.refusal = grpc.StatusCode.INVALID_ARGUMENT, "not today"
    done = nvsharectl(run_dir, "-T", "7")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "nvsharectl: not today\n")


def test_turned_on_but_off_all_the_same(run_dir: RunDir, answers: Answers) -> None:
    """A policy that was set to off is not the original's off: it stays, and that is no success."""
    answers.status = example()
    answers.status.devices[0].policy = "off"
    done = nvsharectl(run_dir, "-S", "on")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the policy of {answers.status.devices[0].uuid} stays off" in done.stderr


def test_with_a_scheduler(scheduler: Scheduler) -> None:
    """off and on again: the policy of before is back."""
    policies = []
    for switch in ("off", "on"):
        done = nvsharectl(scheduler.run_dir, "-S", switch, "-T", "12")
        assert done.returncode == 0, done.stderr
        (device,) = scheduler.status().devices
        policies.append(device.policy)
        assert device.quantum_seconds == 12
    assert policies == ["off", "exclusive"]

"""``nvshare-ctl set``: what reaches the scheduler, and how its refusals look."""

from __future__ import annotations

import grpc
import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.options import seconds
from nvshare.paths import RunDir
from nvshare.scheduler.core import settings
from tests.ctl.admin_server import Answers, example
from tests.ctl.program import ctl


def test_quantum_of_all(run_dir: RunDir, answers: Answers) -> None:
    """Without --device the empty UUID is sent: all devices."""
    done = ctl(run_dir, "set", "quantum", "2.5")
    assert (done.returncode, done.stdout) == (0, "quantum of all devices: 2.5 s\n")
    assert answers.asked == [admin_pb2.SetQuantumRequest(seconds=2.5)]


BUSY, QUIET = (device.uuid for device in example().devices)


@pytest.mark.parametrize(
    ("meant", "uuid"),
    [("0", BUSY), (BUSY, BUSY), (BUSY.upper(), BUSY), ("GPU-6e", BUSY), ("6ec4f", BUSY), ("00000000", QUIET)],
)
def test_policy_of_one(run_dir: RunDir, answers: Answers, meant: str, uuid: str) -> None:
    """With --device, an index, a UUID or the beginning of one, the command is for that one, which is named in full."""
    done = ctl(run_dir, "set", "policy", "exclusive", "--device", meant)
    assert (done.returncode, done.stdout) == (0, f"policy of {uuid}: exclusive\n")
    assert answers.asked[1:] == [admin_pb2.SetPolicyRequest(policy="exclusive", device_uuid=uuid)]


@pytest.mark.parametrize(
    ("meant", "said"),
    [
        ("7", f"device '7' is unknown; known devices: 0 {BUSY}, {QUIET}"),
        ("", f"device '' is unknown; known devices: 0 {BUSY}, {QUIET}"),
        ("GPU-", f"device 'GPU-' is unknown; known devices: 0 {BUSY}, {QUIET}"),
        ("6ec", f"device '6ec' is ambiguous: 0 {BUSY}, 1 {BUSY[:-1]}0; give more of the UUID, or the index"),
    ],
)
def test_no_such_device(run_dir: RunDir, answers: Answers, meant: str, said: str) -> None:
    """Nothing is set, and all that could be meant is listed."""
    if "ambiguous" in said:
        answers.status.devices.append(admin_pb2.Device(index="1", uuid=f"{BUSY[:-1]}0"))
    done = ctl(run_dir, "set", "quantum", "3", "--device", meant)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"nvshare-ctl: {said}\n")
    assert answers.asked == [admin_pb2.GetStatusRequest()]


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND])
def test_refused(run_dir: RunDir, answers: Answers, code: grpc.StatusCode) -> None:
    """What the scheduler refuses is one line in its words, exit code 1."""
    answers.refusal = code, "quantum 3 s is not what I want"
    done = ctl(run_dir, "set", "quantum", "3")
    assert done.returncode == 1
    assert done.stderr == "nvshare-ctl: quantum 3 s is not what I want\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quantum"], "SECONDS"),
        (["quantum", "soon"], "'soon' is no positive number of seconds"),
        (["quantum", "nan"], "'nan' is no positive number of seconds"),
        (["quantum", "0"], "'0' is no positive number of seconds"),
        (["quantum", "\u0663"], "'\u0663' is no positive number of seconds"),
        (["quantum", "1_000"], "'1_000' is no positive number of seconds"),
        (["quantum", " 5"], "' 5' is no positive number of seconds"),
        (["quantum", "86401"], "86401 s is not allowed; from 0.01 to 86400 s is"),
        (["quantum", "1e-9"], "1e-9 s is not allowed; from 0.01 to 86400 s is"),
        (["policy", "fair"], "exclusive"),
        (["colour", "red"], "colour"),
    ],
)
def test_usage(run_dir: RunDir, arguments: list[str], said: str) -> None:
    """A wrong command line names what was wrong or what is allowed, exit code 2, without asking a scheduler."""
    done = ctl(run_dir, "set", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("bound", ["SHORTEST_QUANTUM", "LONGEST_QUANTUM"])
def test_which_quanta_are_allowed(run_dir: RunDir, answers: Answers, bound: str) -> None:
    """Those that the scheduler takes."""
    quantum = getattr(settings, bound)
    assert getattr(seconds, bound) == quantum
    assert ctl(run_dir, "set", "quantum", f"{quantum}").returncode == 0
    assert answers.asked[0] == admin_pb2.SetQuantumRequest(seconds=quantum)


def test_what_is_lost_with_the_scheduler(run_dir: RunDir, answers: Answers) -> None:
    """A choice that could not be written is taken, and it is said how it is kept."""
    answers.status.lost_with_scheduler = "/run/x/choices.json can't be written: No space left on device"
    answers.status.lost_with_machine = "/run/x is in memory"
    done = ctl(run_dir, "set", "quantum", "2.5")
    assert (done.returncode, done.stdout) == (0, "quantum of all devices: 2.5 s\n")
    assert done.stderr == (
        "nvshare-ctl: this is lost when the scheduler ends (/run/x/choices.json can't be written: No space left on "
        "device): make room there and set it again, or start nvshare-scheduler with --quantum 2.5, for all devices\n"
    )


def test_what_is_lost_with_the_machine(run_dir: RunDir, answers: Answers) -> None:
    """As in /run. That nothing is set any more is what a machine begins with."""
    answers.status.lost_with_machine = "/run/x is in memory"
    policy = ctl(run_dir, "set", "policy", "exclusive")
    assert policy.stderr == (
        "nvshare-ctl: this is lost when the machine restarts (/run/x is in memory): to keep it, "
        "start nvshare-scheduler with --policy exclusive, for all devices\n"
    )
    weight = ctl(run_dir, "set", "weight", "2.5", "train")
    assert weight.stderr.endswith("NVSHARE_WEIGHT=2.5, or annotate its pod with nvshare.com/weight=2.5\n")
    claim = ctl(run_dir, "set", "weight", "2.5", "claim:default/train")
    assert claim.stderr.endswith("nvshare.com/weight=2.5; if the claim says it, only another claim can\n")
    assert ctl(run_dir, "set", "weight", "none", "train").stderr == ""


def test_what_is_lost_with_a_process(run_dir: RunDir, answers: Answers) -> None:
    """Another process will have its number."""
    done = ctl(run_dir, "set", "priority", "high", "pid:4711")
    assert done.stderr.startswith(
        "nvshare-ctl: this is lost when process 4711 ends: to keep it, start its programs with"
    )
    assert ctl(run_dir, "set", "priority", "high", "train").stderr == ""

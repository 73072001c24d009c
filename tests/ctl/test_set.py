"""``nvshare-ctl set``: what reaches the scheduler, and how its refusals look."""

from __future__ import annotations

import grpc
import pytest

from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl


def test_quantum_of_all(run_dir: RunDir, answers: Answers) -> None:
    """Without --device the empty UUID is sent: all devices."""
    done = ctl(run_dir, "set", "quantum", "2.5")
    assert (done.returncode, done.stdout) == (0, "quantum of all devices: 2.5 s\n")
    assert answers.asked == [admin_pb2.SetQuantumRequest(seconds=2.5)]


def test_policy_of_one(run_dir: RunDir, answers: Answers) -> None:
    """With --device the command is for that one."""
    done = ctl(run_dir, "set", "policy", "exclusive", "--device", "GPU-1")
    assert (done.returncode, done.stdout) == (0, "policy of GPU-1: exclusive\n")
    assert answers.asked == [admin_pb2.SetPolicyRequest(policy="exclusive", device_uuid="GPU-1")]


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND])
def test_refused(run_dir: RunDir, answers: Answers, code: grpc.StatusCode) -> None:
    """What the scheduler refuses is one line in its words, exit code 1."""
    answers.refusal = code, "quantum 1e+30 s is not allowed; from 0.01 to 86400 s is"
    done = ctl(run_dir, "set", "quantum", "1e30")
    assert done.returncode == 1
    assert done.stderr == "nvshare-ctl: quantum 1e+30 s is not allowed; from 0.01 to 86400 s is\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quantum"], "SECONDS"),
        (["quantum", "soon"], "'soon' is no positive number of seconds"),
        (["quantum", "nan"], "'nan' is no positive number of seconds"),
        (["quantum", "0"], "'0' is no positive number of seconds"),
        (["policy", "fair"], "exclusive"),
        (["colour", "red"], "colour"),
    ],
)
def test_usage(run_dir: RunDir, arguments: list[str], said: str) -> None:
    """A wrong command line names what was wrong or what is allowed, exit code 2, without asking a scheduler."""
    done = ctl(run_dir, "set", *arguments)
    assert done.returncode == 2
    assert said in done.stderr

"""``nvshare-ctl set weight`` and the like: what reaches the scheduler, and what a wrong command line says."""

from __future__ import annotations

import grpc
import pytest

from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl


@pytest.mark.parametrize(
    ("term", "value", "request_"),
    [
        ("weight", "2.5", {"weight": 2.5}),
        ("priority", "high", {"priority": "high"}),
        ("compute-limit", "30%", {"compute_limit": 0.3}),
        ("memory-limit", "2GiB", {"memory_limit_bytes": 2 << 30}),
        ("memory-request", "512Mi", {"memory_request_bytes": 512 << 20}),
        ("when-full", "wait", {"when_full": "wait"}),
        ("sleep", "idle", {"sleep": "idle"}),
    ],
)
def test_what_is_asked(
    run_dir: RunDir, answers: Answers, term: str, value: str, request_: dict[str, float | str]
) -> None:
    """One field of the request is set, or named as taken back."""
    done = ctl(run_dir, "set", term, value, "default/notebook-0/main")
    assert (done.returncode, done.stdout) == (0, f"{term} of default/notebook-0/main: {value}\n")
    for word in ("none", "default"):
        done = ctl(run_dir, "set", term, word, "train")
        assert (done.returncode, done.stdout) == (0, f"{term} of train: taken back\n")
    assert answers.asked == [
        admin_pb2.SetTermsRequest(container="default/notebook-0/main", **request_),  # type: ignore[arg-type]
        *[admin_pb2.SetTermsRequest(container="train", taken_back=list(request_))] * 2,
    ]


@pytest.mark.parametrize("value", ["100", "100%"])
@pytest.mark.usefixtures("answers")
def test_percent(run_dir: RunDir, value: str) -> None:
    """It is shown alike, however it was written."""
    assert ctl(run_dir, "set", "compute-limit", value, "a").stdout == "compute-limit of a: 100%\n"


def test_no_such_container(run_dir: RunDir, answers: Answers) -> None:
    """What the scheduler says of it is one line, exit code 1."""
    answers.refusal = grpc.StatusCode.NOT_FOUND, "container 'trian' is unknown; known containers: train@0"
    done = ctl(run_dir, "set", "weight", "2", "trian")
    assert done.returncode == 1
    assert done.stderr == "nvshare-ctl: container 'trian' is unknown; known containers: train@0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["weight", "2"], "CONTAINER"),
        (["weight", "0", "train"], "'0' is no weight; a number from 0.01 to 1000 is"),
        (["priority", "urgent", "train"], "'urgent' is no priority; low, normal, high are"),
        (["compute-limit", "200", "train"], "'200' is no percentage from 0.1 to 100"),
        (["memory-limit", "2gb", "train"], "'2gb' is no size"),
        (["memory-request", "much", "train"], "'much' is no size"),
        (["memory-limit", "0", "train"], "Invalid value for VALUE: '0' is nothing"),
        (["memory-limit", "0", "train"], "'none' takes back what was set"),
        (["when-full", "hope", "train"], "'hope' is none of wait, refuse"),
        (["sleep", "always", "train"], "'always' is none of never, pressure, idle"),
    ],
)
def test_usage(run_dir: RunDir, arguments: list[str], said: str) -> None:
    """A wrong command line names what was wrong and what is allowed, exit code 2, without asking a scheduler."""
    done = ctl(run_dir, "set", *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())

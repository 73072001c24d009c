"""``nvshare-ctl status`` of clients that don't have the default terms."""

from __future__ import annotations

import json

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.showing import status_document
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl

GIB = 1 << 30
ALL = admin_pb2.Terms(
    weight=2.5,
    priority="high",
    compute_limit=0.3,
    memory_limit_bytes=4 * GIB,
    memory_request_bytes=GIB,
    when_full="wait",
    sleep="idle",
)
SET = admin_pb2.Terms(by_command=["weight"], by_annotation=["compute_limit", "memory_limit_bytes"])
SET.MergeFrom(ALL)
DEFAULT = admin_pb2.Terms(weight=1.0, priority="normal")
REFUSES = admin_pb2.Terms(weight=1.0, priority="normal", when_full="refuse", by_annotation=["when_full"])
SAID_BY = "weight 2.5 (set), priority high, compute 30 % (annotation), limit 4.0 GiB (annotation), request 1.0 GiB"
SET_SAID = f"{SAID_BY}, sleep idle"
SAID = "weight 2.5, priority high, compute 30 %, limit 4.0 GiB, request 1.0 GiB"


def client(answers: Answers, number: int, member_of: str, terms: admin_pb2.Terms) -> None:
    """Changes one of the clients that are shown: the second one is of a pod."""
    shown = answers.status.devices[0].clients[number]
    shown.member_of = member_of
    shown.memory_kept_bytes = terms.memory_request_bytes
    shown.terms.CopyFrom(terms)


@pytest.mark.parametrize(
    ("number", "member_of", "terms", "line"),
    [
        (0, "train@1000", ALL, f"train@1000: {SAID}, when full wait, sleep idle"),
        (0, "train@1000", DEFAULT, ""),
        (0, "pid:77@1000", ALL, f"pid:77@1000: {SAID}, when full wait, sleep idle"),
        (0, "pid:77@1000", DEFAULT, ""),
        (1, "vision/detector-5d4f8c7b9-x2x7k/main", ALL, f"{SAID}, sleep idle"),
        (1, "vision/detector-5d4f8c7b9-x2x7k/main", SET, SET_SAID),
        (1, "vision/detector-5d4f8c7b9-x2x7k/main", REFUSES, "when full refuse (annotation)"),
        (1, "vision/detector-5d4f8c7b9-x2x7k/main", DEFAULT, ""),
    ],
)
def test_line(
    run_dir: RunDir, answers: Answers, number: int, member_of: str, terms: admin_pb2.Terms, line: str
) -> None:
    """One line below the table: the container's name, unless it is a pod's, and what is no default."""
    client(answers, number, member_of, terms)
    shown = ctl(run_dir, "status", COLUMNS="240").stdout.splitlines()
    pid = answers.status.devices[0].clients[number].pid
    assert [each.rstrip() for each in shown if each.startswith("terms")] == ([f"terms   {pid}  {line}"] if line else [])


@pytest.mark.parametrize(
    ("member_of", "name", "columns"),
    [
        ("train@1000", "train", 80),
        ("python-0a1b2c3d@1000", "", 80),
        ("python-0a1b2c3d@1000", "python-0a1b2c3d", 120),
        ("pid:77@1000", "", 120),
    ],
)
def test_name(run_dir: RunDir, answers: Answers, member_of: str, name: str, columns: int) -> None:
    """The one that somebody gave has a column; one that was made up is there where there is room, for ``set``."""
    client(answers, 0, member_of, DEFAULT)
    answers.status.devices[0].clients[1].ClearField("identity")
    shown = ctl(run_dir, "status", COLUMNS=str(columns)).stdout
    [row] = [line.split() for line in shown.splitlines() if line.startswith("4194301 ")]
    assert row[1] == (name or "waiting")
    assert ("NAME" in shown) is bool(name)


def test_nothing_of_them_is_left_out(run_dir: RunDir, answers: Answers) -> None:
    """In a narrow terminal, too, where commands are cut off."""
    client(answers, 1, "vision/detector-5d4f8c7b9-x2x7k/main", SET)
    shown = ctl(run_dir, "status", COLUMNS="80").stdout
    assert set(SET_SAID.split()) <= set(shown.split())


def test_json(run_dir: RunDir, answers: Answers) -> None:
    """Scripts rely on these names and units; what is not limited is null. kubectl nvshare reads it back."""
    client(answers, 0, "train@1000", SET)
    client(answers, 1, "pid:72@0", DEFAULT)
    document = json.loads(ctl(run_dir, "status", "-o", "json").stdout)
    first, second = document["devices"][0]["clients"]
    assert (first["member_of"], second["member_of"]) == ("train@1000", "pid:72@0")
    assert (first["name"], second["name"]) == ("train", None)
    assert (first["memory_kept_bytes"], second["memory_kept_bytes"]) == (GIB, 0)
    assert first["terms"] == {
        "weight": 2.5,
        "priority": "high",
        "compute_limit": 0.3,
        "memory_limit_bytes": 4 * GIB,
        "memory_request_bytes": GIB,
        "when_full": "wait",
        "sleep": "idle",
        "by_command": ["weight"],
        "by_annotation": ["compute_limit", "memory_limit_bytes"],
        "by_claim": [],
    }
    assert second["terms"] == {
        "weight": 1.0,
        "priority": "normal",
        "compute_limit": None,
        "memory_limit_bytes": None,
        "memory_request_bytes": 0,
        "when_full": "",
        "sleep": None,
        "by_command": [],
        "by_annotation": [],
        "by_claim": [],
    }
    shown = status_document.to_status(document).devices[0].clients
    assert [each.terms for each in shown] == [SET, DEFAULT]
    assert [each.memory_kept_bytes for each in shown] == [GIB, 0]


@pytest.mark.parametrize(("kept", "said"), [(12 * GIB, "12.0 GiB of it kept"), (0, "none of it kept")])
def test_a_request_that_is_not_kept_in_full(run_dir: RunDir, answers: Answers, kept: int, said: str) -> None:
    """Both sizes are shown."""
    terms = admin_pb2.Terms(weight=1.0, priority="normal", memory_request_bytes=40 * GIB)
    client(answers, 0, "train@1000", terms)
    answers.status.devices[0].clients[0].memory_kept_bytes = kept
    shown = ctl(run_dir, "status", COLUMNS="240").stdout
    assert f"train@1000: request 40.0 GiB, {said}\n" in "\n".join(map(str.rstrip, shown.splitlines())) + "\n"

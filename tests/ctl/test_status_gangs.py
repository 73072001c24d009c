"""``nvshare-ctl status`` of clients that hold and wait as one."""

from __future__ import annotations

import json

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl import status_document
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl


@pytest.mark.parametrize(
    ("number", "gang", "lines"),
    [
        (0, admin_pb2.Gang(name="job", members=2, size=2), {"job: 2 clients"}),
        (0, admin_pb2.Gang(name="gang 1", members=2, size=8), {"gang 1: 2 of 8 clients"}),
        (
            0,
            admin_pb2.Gang(name="job", members=3, size=3, come=2, expected=4),
            {"waits for its gang: 2 of 4 have come", "job: 3 clients"},
        ),
        (
            1,
            admin_pb2.Gang(name="job", members=3, size=3, come=2, expected=4),
            {"its gang is not complete: 2 of 4 have come", "job: 3 clients"},
        ),
    ],
)
def test_lines(run_dir: RunDir, answers: Answers, number: int, gang: admin_pb2.Gang, lines: set[str]) -> None:
    """Below the command: the gang, and what its member waits for if not all have come. Only the first one waits."""
    before = {line.strip() for line in ctl(run_dir, "status", COLUMNS="240").stdout.splitlines()}
    answers.status.devices[0].clients[number].gang.CopyFrom(gang)
    after = {line.strip() for line in ctl(run_dir, "status", COLUMNS="240").stdout.splitlines()}
    assert after - before == lines


def test_json(run_dir: RunDir, answers: Answers) -> None:
    """Scripts rely on these names. kubectl nvshare reads it back, also one that knows fewer of them."""
    gang = admin_pb2.Gang(name="job", members=3, size=3, come=2, expected=4)
    answers.status.devices[0].clients[0].gang.CopyFrom(gang)
    document = json.loads(ctl(run_dir, "status", "-o", "json").stdout)
    shown = document["devices"][0]["clients"][0]["gang"]
    assert shown == {"name": "job", "members": 3, "size": 3, "apart": False, "come": 2, "expected": 4}
    shown["later"] = 1
    assert status_document.to_status(document).devices[0].clients[0].gang == gang

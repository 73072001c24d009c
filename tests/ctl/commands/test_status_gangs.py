"""``nvshare-ctl status`` of clients that hold and wait as one."""

from __future__ import annotations

import json

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.showing import status_document
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl


@pytest.mark.parametrize(
    ("number", "gang", "lines"),
    [
        (0, admin_pb2.Gang(name="job", members=2, size=2), {"gang    job: 2 clients (PID)"}),
        (0, admin_pb2.Gang(name="gang 1", members=2, size=8), {"gang    gang 1: 2 of 8 clients (PID)"}),
        (
            0,
            admin_pb2.Gang(name="job", members=3, size=3, come=2, expected=4),
            {"gang    job: 3 clients; 2 of 4 have come (PID)", "its gang: 2 of 4 have come"},
        ),
        (
            1,
            admin_pb2.Gang(name="job", members=3, size=3, come=2, expected=4),
            {"gang    job: 3 clients; 2 of 4 have come (PID)"},
        ),
    ],
)
def test_lines(run_dir: RunDir, answers: Answers, number: int, gang: admin_pb2.Gang, lines: set[str]) -> None:
    """Below the table: the gang, and whether all have come; who waits for them says that in its line."""
    client = answers.status.devices[0].clients[number]
    client.gang.CopyFrom(gang)
    shown = ctl(run_dir, "status", COLUMNS="240").stdout
    assert all(line.replace("PID", str(client.pid)) in shown for line in lines)
    assert shown.count("have come") == sum("have come" in line for line in lines)


def test_json(run_dir: RunDir, answers: Answers) -> None:
    """Scripts rely on these names. kubectl nvshare reads it back, also one that knows fewer of them."""
    gang = admin_pb2.Gang(name="job", members=3, size=3, come=2, expected=4)
    answers.status.devices[0].clients[0].gang.CopyFrom(gang)
    document = json.loads(ctl(run_dir, "status", "-o", "json").stdout)
    shown = document["devices"][0]["clients"][0]["gang"]
    assert shown == {"name": "job", "members": 3, "size": 3, "apart": False, "come": 2, "expected": 4}
    shown["later"] = 1
    assert status_document.to_status(document).devices[0].clients[0].gang == gang

"""``nvshare-ctl status`` of programs that sleep, and of those that can't."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.asking.status_stream import aged
from nvshare.ctl.showing import status_document
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, serving, swapping
from tests.ctl.program import ctl


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    """Of a scheduler with one program that sleeps, one that wakes, and one that stayed awake."""
    return RunDir(tmp_path / "run")


@pytest.fixture
def status(run_dir: RunDir) -> Iterator[admin_pb2.Status]:
    """What that scheduler says."""
    status = swapping()
    [asleep, waking] = status.devices[0].clients
    for client, state, seconds in ((asleep, "asleep", 3725.0), (waking, "waking", 0.25)):
        client.ClearField("waiting_seconds")
        client.ClearField("position")
        client.state, client.asleep_seconds, client.sleeps = state, seconds, 2
    asleep.pinned_bytes = 0
    awake = status.devices[0].clients.add()
    awake.CopyFrom(asleep)
    awake.id, awake.pid, awake.state, awake.awake_reason = 3, 83, "idle", "it uses CUDA IPC"
    awake.ClearField("asleep_seconds")
    other = status.devices[0].clients.add()
    other.id, other.pid, other.state, other.awake_reason = 4, 84, "idle", "its memory does not swap"
    with serving(run_dir, Answers(status)):
        yield status


@pytest.mark.parametrize("columns", [80, 160])
def test_table(run_dir: RunDir, status: admin_pb2.Status, columns: int) -> None:
    """Since when; how many there are; and why one stays awake whose memory leaves, though it might be expected to."""
    lines = ctl(run_dir, "status", COLUMNS=str(columns)).stdout.splitlines()
    assert all(len(line) <= columns for line in lines)
    words = [" ".join(line.split()) for line in lines]
    assert "turns policy auto, quantum 30 s, 1 waking, 2 idle, 1 asleep" in words
    assert any(line.startswith("81 asleep 1h 02m 12.0 GiB") for line in words)
    assert any(line.startswith("82 waking 0.2 s 12.0 GiB") for line in words)
    assert [line for line in words if "can't sleep" in line] == ["awake 83 can't sleep: it uses CUDA IPC"]


def test_document(run_dir: RunDir, status: admin_pb2.Status) -> None:
    """And back, as ``kubectl nvshare`` reads it."""
    document = json.loads(ctl(run_dir, "status", "-o", "json").stdout)
    asleep, waking, awake, _ = document["devices"][0]["clients"]
    assert [(each["state"], each["asleep_seconds"]) for each in (asleep, waking)] == [
        ("asleep", 3725),
        ("waking", 0.25),
    ]
    assert (awake["asleep_seconds"], awake["sleeps"], awake["awake_reason"]) == (None, 2, "it uses CUDA IPC")
    assert status_document.to_status(document) == status


def test_time_goes_on(status: admin_pb2.Status) -> None:
    """While nothing happens, nothing is told."""
    later = [client.asleep_seconds for client in aged(status, 5.0).devices[0].clients]
    assert later == [3730.0, 5.25, 0.0, 0.0]


def test_data_in_a_file(run_dir: RunDir, status: admin_pb2.Status) -> None:
    """Whose it is and how much, of one and of all."""
    status.devices[0].clients[0].swap.stored_bytes = 5 << 30
    lines = ctl(run_dir, "status", COLUMNS="160").stdout.splitlines()
    words = [" ".join(line.split()) for line in lines]
    assert any("20.0 GiB swapped (5.0 GiB of it in files), reserve" in line for line in words)
    [head] = [line.split() for line in lines if line.split()[:1] == ["PID"]]
    assert head[2:6] == ["FOOTPRINT", "RESIDENT", "SWAPPED", "STORED"]
    [row] = [line for line in words if line.startswith("81 ")]
    assert "7.0 GiB 5.0 GiB" in row


def test_equal_data(run_dir: RunDir, status: admin_pb2.Status) -> None:
    """How much of whose is kept once with others', and what that takes."""
    status.devices[0].clients[0].swap.shared_bytes = 5 << 30
    status.shared_blocks_bytes, status.packs_bytes = 15 << 30, 6 << 30
    lines = ctl(run_dir, "status", COLUMNS="160").stdout.splitlines()
    [host] = [line for line in lines if "host memory for what is swapped" in line]
    assert host.endswith(", of it 6.0 GiB for 15.0 GiB of equal data")
    [head] = [line.split() for line in lines if line.split()[:1] == ["PID"]]
    assert head[2:6] == ["FOOTPRINT", "RESIDENT", "SWAPPED", "SHARED"]

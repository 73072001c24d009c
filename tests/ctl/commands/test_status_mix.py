"""``nvshare-ctl status`` where clients that fit a GPU together are measured: what is better, in one line."""

from __future__ import annotations

import json

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.asking import status_stream
from nvshare.ctl.showing import status_document
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import ctl


def status_of(mix: admin_pb2.Mix) -> admin_pb2.Status:
    """One device with this mix."""
    return admin_pb2.Status(devices=[admin_pb2.Device(uuid="GPU-a", policy="auto", quantum_seconds=30.0, mix=mix)])


@pytest.mark.parametrize(
    ("mix", "line"),
    [
        (admin_pb2.Mix(measuring=True), "together: measuring"),
        (admin_pb2.Mix(), "together: not known, so together"),
        (admin_pb2.Mix(turns=True, ratio=0.918), "together: 0.92 of turns, so turns"),
        (admin_pb2.Mix(turns=True, bursts=1.37), "together: bursts take 1.37 times as long as in turns, so turns"),
        (admin_pb2.Mix(bursts=0.22), "together: bursts take 0.22 times as long as in turns, so together"),
        (admin_pb2.Mix(ratio=1.72), "together: 1.72 of turns, so together"),
        (admin_pb2.Mix(ratio=1.72, measuring=True), "together: 1.72 of turns, so together, measuring again"),
    ],
)
def test_one_line(run_dir: RunDir, answers: Answers, mix: admin_pb2.Mix, line: str) -> None:
    """What they do together by what they do in turns, and what follows from that."""
    answers.status = status_of(mix)
    assert line in ctl(run_dir, "status").stdout.splitlines()


def test_in_json(run_dir: RunDir, answers: Answers) -> None:
    """Scripts rely on these names; what is not known is null."""
    answers.status = status_of(admin_pb2.Mix(turns=True, ratio=0.918, measured_seconds=12.5))
    [device] = json.loads(ctl(run_dir, "status", "-o", "json").stdout)["devices"]
    known = {"turns": True, "measuring": False, "ratio": 0.918, "measured_seconds": 12.5, "bursts": None}
    assert device["mix"] == known
    answers.status = status_of(admin_pb2.Mix(measuring=True))
    [device] = json.loads(ctl(run_dir, "status", "-o", "json").stdout)["devices"]
    unknown = {"turns": False, "measuring": True, "ratio": None, "measured_seconds": None, "bursts": None}
    assert device["mix"] == unknown


def test_document_and_back() -> None:
    """``kubectl nvshare status`` shows what the nodes' documents say."""
    status = status_of(admin_pb2.Mix(turns=True, ratio=0.918, measured_seconds=12.5, bursts=1.5))
    assert status_document.to_status(status_document.from_status(status)).devices[0].mix == status.devices[0].mix


def test_it_grows_older() -> None:
    """Between two answers only the time since the measurement grows."""
    status = status_of(admin_pb2.Mix(turns=True, ratio=0.918, measured_seconds=12.5))
    assert status_stream.aged(status, 2.0).devices[0].mix.measured_seconds == 14.5

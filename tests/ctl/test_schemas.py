"""The schemas in docs/ say exactly what the commands print."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import build_native
from nvshare import simgpu
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.version import version
from tests.conftest import Libraries
from tests.ctl.admin_server import Answers, example, swapping
from tests.ctl.program import ctl
from tests.layout.tree import ROOT
from tests.polling import poll_until
from tests.scheduler.wire_client import GIB, Scheduler

SCHEMAS = ROOT / "docs" / "schemas"
PATH = os.pathsep.join((str(build_native.ROOT), str(build_native.SOURCES)))
USE = "from tests.simgpu.device import Device, allocate; device = Device.open(); allocate(8 << 20); device.spin(0.1)"
Document = dict[str, Any]


def schema_of(command: str) -> Document:
    """As it is in docs/, but for this: what it does not name is wrong."""
    schema: Document = json.loads((SCHEMAS / f"{command}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    _close(schema)
    return schema


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if "properties" in schema:
            schema["additionalProperties"] = False
        for part in schema.values():
            _close(part)
    elif isinstance(schema, list):
        for part in schema:
            _close(part)


def printed(run_dir: RunDir, command: str, *arguments: str, codes: tuple[int, ...] = (0,), **more: str) -> Document:
    """What a command prints as JSON, after it was held against its schema."""
    done = ctl(run_dir, command, "-o", "json", *arguments, **more)
    assert done.returncode in codes, done.stderr
    document: Document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema_of(command)).validate(document)
    assert document["schema_version"] == 1
    return document


@pytest.fixture
def scheduler(run_dir: RunDir) -> Iterator[Scheduler]:
    """A real one."""
    with Scheduler(run_dir.root / "run") as scheduler:
        yield scheduler


def test_status_and_timeline(scheduler: Scheduler) -> None:
    """Of a real scheduler with a client that holds, and its turn."""
    client = scheduler.client().register(footprint_bytes=GIB)
    client.lock()
    status = printed(scheduler.run_dir, "status")
    assert (status["version"], len(status["devices"][0]["clients"])) == (version(), 1)
    timeline = printed(scheduler.run_dir, "timeline")
    assert (timeline["version"], timeline["clients"][0]["spans"][-1]["what"]) == (version(), "holding")


@pytest.mark.parametrize("status", [example(), swapping()], ids=["pods", "swapping"])
def test_status_with_what_it_may_have(run_dir: RunDir, answers: Answers, status: admin_pb2.Status) -> None:
    """Pods, memory that swaps, terms, a gang, a mix that was measured, whether each of their fields is known or not."""
    answers.status.CopyFrom(status)
    device = answers.status.devices[0]
    device.mix.turns = True
    device.clients[0].gang.size = 2
    device.clients[0].terms.CopyFrom(admin_pb2.Terms(weight=1, priority="low", when_full="wait"))
    printed(run_dir, "status")
    device.mix.MergeFrom(admin_pb2.Mix(ratio=1.2, measured_seconds=3, bursts=2))
    device.clients[0].terms.MergeFrom(
        admin_pb2.Terms(
            compute_limit=0.5,
            memory_limit_bytes=1,
            sleep="idle",
            by_command=["weight"],
            by_annotation=["priority"],
        )
    )
    printed(run_dir, "status")


def test_doctor_of_the_machine(run_dir: RunDir) -> None:
    """As this one is; what it lacks are problems."""
    assert printed(run_dir, "doctor", codes=(0, 1))["version"] == version()


def test_doctor_of_a_program(run_dir: RunDir, tmp_path: Path, libraries: Libraries) -> None:
    """One that used a simulated GPU."""
    report = tmp_path / "report.json"
    variables = simgpu.environment(tmp_path / "gpus", "1x1GiB/1MiB") | {"PYTHONPATH": PATH}
    command = (sys.executable, "-c", USE)
    try:
        done = ctl(run_dir, "doctor", "-o", "json", "--output-file", str(report), "--", *command, **variables)
    finally:
        if run_dir.pid_file.exists():
            os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)
            poll_until(lambda: not run_dir.client_socket.exists(), "the scheduler has ended")
    assert done.returncode == 0, done.stderr
    document = json.loads(report.read_text())
    jsonschema.Draft202012Validator(schema_of("doctor")).validate(document)
    assert any(process["devices"] and process["functions"] for process in document["processes"])

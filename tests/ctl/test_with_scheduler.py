"""nvshare-ctl and a real scheduler: what the one says is what the other shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.ctl.program import ctl
from tests.scheduler.wire_client import GIB, Scheduler


@pytest.fixture
def scheduler(run_dir: RunDir) -> Iterator[Scheduler]:
    """A scheduler with nobody connected."""
    with Scheduler(run_dir.root / "run", "--quantum", "20") as scheduler:
        yield scheduler


def device(scheduler: Scheduler) -> dict[str, Any]:
    """The only device as ``status -o json`` shows it."""
    done = ctl(scheduler.run_dir, "status", "-o", "json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["devices"]
    return dict(found)


def test_holder_and_waiter(scheduler: Scheduler) -> None:
    """Two clients that don't fit the device together: one holds, the other waits, and the quantum runs."""
    first = scheduler.client().register(footprint_bytes=12 * GIB)
    second = scheduler.client().register(footprint_bytes=12 * GIB)
    first.lock()
    second.send(wire.ReqLock())
    first.expect(wire.Waiters)
    shown = device(scheduler)
    assert (shown["total_bytes"], shown["policy"], shown["quantum_seconds"]) == (16 * GIB, "auto", 20.0)
    assert 0 < shown["quantum_left_seconds"] <= 20
    assert [(each["state"], each["footprint_bytes"], each["backend"]) for each in shown["clients"]] == [
        ("holding", 12 * GIB, "native"),
        ("waiting", 12 * GIB, "native"),
    ]
    table = ctl(scheduler.run_dir, "status").stdout
    assert "1 holding, 1 waiting" in table
    assert "clients 25.2 + others ? of 16.0 GiB" in table


def test_settings_take_effect(scheduler: Scheduler) -> None:
    """What ``set`` sets is what ``status`` shows, for one device or for all."""
    scheduler.client().register()
    uuid = device(scheduler)["uuid"]
    assert ctl(scheduler.run_dir, "set", "quantum", "7.5").returncode == 0
    assert ctl(scheduler.run_dir, "set", "policy", "exclusive", "--device", uuid).returncode == 0
    shown = device(scheduler)
    assert (shown["quantum_seconds"], shown["policy"]) == (7.5, "exclusive")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quantum", "3", "--device", "GPU-unknown"], "GPU-unknown"),
        (["policy", "off", "--device", "GPU-unknown"], "GPU-unknown"),
        (["weight", "2", "\udcff"], "udcff' is unknown; known containers: none yet"),
    ],
)
def test_refusals(scheduler: Scheduler, arguments: list[str], said: str) -> None:
    """What the scheduler refuses is one line that names the value."""
    done = ctl(scheduler.run_dir, "set", *arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1

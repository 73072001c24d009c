"""What kubelet never ended is forgotten, and nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.deviceplugin.claims.sweep import Sweep, held_in
from tests.deviceplugin.claims.bench import NODE, NodeOfClaims, claim, result
from tests.polling import until


@pytest.fixture
def node(tmp_path: Path) -> NodeOfClaims:
    return NodeOfClaims(tmp_path)


async def prepared(node: NodeOfClaims, *names: str) -> Claims:
    claims = node.start()
    for name in names:
        node.api.add(claim(f"uid-{name}", name=name))
        await claims.prepare(f"uid-{name}", "team", name)
    return claims


def sweep_of(node: NodeOfClaims, claims: Claims, held: Collection[str] | None) -> Sweep:
    return Sweep(claims, NODE, node.api.get, lambda: held, claims._log)


async def test_what_is_over(node: NodeOfClaims) -> None:
    """What is gone, was made anew, or is allocated elsewhere goes, unless a container has it."""
    claims = await prepared(node, "stays", "gone", "anew", "elsewhere", "nowhere", "held")
    del node.api.claims["team", "gone"], node.api.claims["team", "held"]
    node.api.add(claim("another", name="anew"))
    node.api.add(claim("uid-elsewhere", result() | {"pool": "node-2"}, name="elsewhere"))
    node.api.add(claim("uid-nowhere", name="nowhere") | {"status": {}})
    await sweep_of(node, claims, {"team/held"}).sweep()
    assert node.recorded == node.described == {"uid-stays", "uid-held"}


async def test_while_something_is_not_known(node: NodeOfClaims) -> None:
    """Nothing is forgotten while kubelet's list is not known, or the API server is away."""
    claims = await prepared(node, "gone")
    del node.api.claims["team", "gone"]
    await sweep_of(node, claims, None).sweep()
    node.api.away = True
    await sweep_of(node, claims, ()).sweep()
    assert node.recorded == {"uid-gone"}
    assert "can't be swept: trying again later" in node.logged[-1]
    node.api.away = False
    await sweep_of(node, claims, ()).sweep()
    assert node.recorded == set()


async def damaged(node: NodeOfClaims, *names: str, days: float) -> Claims:
    """The claims of a driver that finds these records damaged, which were written so long ago."""
    await prepared(node, *names)
    written = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    for name in names:
        file = node.records / f"uid-{name}.json"
        file.write_bytes(file.read_bytes()[:40])
        os.utime(file, (written, written))
    return node.start()


async def test_damaged_records(node: NodeOfClaims) -> None:
    """They go after a day, and what containers would find by them; a line in the log names each."""
    claims = await damaged(node, "a", days=1.01)
    await damaged(node, "b", days=0.99)
    await sweep_of(node, claims, ()).sweep()
    assert node.recorded == node.described == {"uid-b"}
    assert "a claim's damaged record is removed" in node.logged[-1]
    assert f"{node.records}/uid-a.json" in node.logged[-1]


async def test_damaged_records_of_running_containers(node: NodeOfClaims) -> None:
    """A claim that a container has and that no record tells of may be the one: nothing is taken from it."""
    claims = await damaged(node, "a", days=30)
    for held in (None, {"team/a"}):
        await sweep_of(node, claims, held).sweep()
        assert node.recorded == node.described == {"uid-a"}
    await claims.prepare("uid-a", "team", "a")
    os.utime(node.records / "uid-a.json", (0, 0))
    await sweep_of(node, claims, {"team/a"}).sweep()
    assert node.recorded == node.described == {"uid-a"}


async def test_damaged_records_that_cant_be_removed(node: NodeOfClaims) -> None:
    """It is said, and tried again."""
    claims = await damaged(node, "a", days=2)
    (node.records / "uid-0.json").mkdir()
    os.utime(node.records / "uid-0.json", (0, 0))
    await sweep_of(node, claims, ()).sweep()
    assert "can't be swept: trying again later" in node.logged[-1]
    (node.records / "uid-0.json").rmdir()
    await sweep_of(node, claims, ()).sweep()
    assert node.recorded == set()


async def test_again_and_again(node: NodeOfClaims, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sweeps until it is cancelled."""
    monkeypatch.setattr("nvshare.deviceplugin.claims.sweep._SWEEP_SECONDS", 0.01)
    claims = await prepared(node, "a", "b")
    task = asyncio.create_task(sweep_of(node, claims, ()).run())
    for name in ("a", "b"):
        del node.api.claims["team", name]
        await until(lambda name=name: f"uid-{name}" not in claims.records, "it is forgotten")  # type: ignore[misc]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_what_containers_hold() -> None:
    """As the scheduler's status says; without kubelet's list it is not known."""
    status = admin_pb2.Status(knows_allocations=True)
    device = status.devices.add()
    device.allocations.add(claim="team/a", shares=1)
    device.allocations.add(virtual_device_ids=["GPU-1__1"])
    assert held_in(status) == {"team/a"}
    status.knows_allocations = False
    assert held_in(status) is None
    assert held_in(None) is None

"""What kubelet never ended is forgotten, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
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

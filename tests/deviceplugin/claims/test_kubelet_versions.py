"""Kubelets of Kubernetes 1.34, 1.35 and 1.36 take the driver and have claims prepared, with what each of them knows."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from nvshare.deviceplugin.devices import Offer, Snapshot
from nvshare.unix_sockets import grpc_address
from tests.deviceplugin.claims.bench import GPU_A, NODE, NodeOfClaims, claim, result
from tests.deviceplugin.claims.instance import Instance
from tests.deviceplugin.claims.kubelet_versions import CHOICES, FACTS, VERSIONS, Kubelet, described, served
from tests.polling import until

PREPARE = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodePrepareResources"
UNPREPARE = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodeUnprepareResources"


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[tuple[Instance, NodeOfClaims, Path]]:
    """With its node, and the folder of its sockets, which is short, because a socket's path must be."""
    with tempfile.TemporaryDirectory(prefix="dra-") as path:
        root, node = Path(path), NodeOfClaims(tmp_path)
        (root / "plugins_registry").mkdir()
        instance = Instance(node, root)
        yield instance, node, root
        await instance.stop()


def test_the_driver_serves_what_is_published() -> None:
    """Services, messages and fields, with their numbers and types; also what older kubelets know of them."""
    assert {file.package: described(file) for file in served()} == FACTS


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_claim_from_registration_to_end(driver: tuple[Instance, NodeOfClaims, Path], version: str) -> None:
    """It finds a service that it knows, has a claim prepared and ended, and hears of the GPUs' health.

    What a version does not know of an answer is passed over: the share's name, and why a GPU is not healthy.
    """
    instance, node, root = driver
    node.api.add(claim("u", result(GPU_A, "gpu", shareID="s")))
    kubelet = Kubelet(version)
    await until(lambda: list((root / "plugins_registry").glob("*.sock")), "its registration socket is there")
    (socket,) = (root / "plugins_registry").glob("*.sock")
    async with grpc.aio.insecure_channel(grpc_address(socket)) as channel:
        info = await kubelet.ask(channel, "pluginregistration.Registration.GetInfo")
        assert (info["type"], info["name"]) == ("DRAPlugin", "gpu.nvshare.com")
        assert next(each for each in info["supported_versions"] if each in CHOICES) == "v1.DRAPlugin"
        status = "pluginregistration.Registration.NotifyRegistrationStatus"
        assert await kubelet.ask(channel, status, plugin_registered=True) == {}
    assert instance.registration.ready
    async with grpc.aio.insecure_channel(grpc_address(Path(info["endpoint"]))) as channel:
        asked = [{"namespace": "team", "uid": "u", "name": "share"}]
        answer = await kubelet.ask(channel, PREPARE, claims=asked)
        expected = {
            "request_names": ["gpu"],
            "pool_name": NODE,
            "device_name": GPU_A.lower(),
            "cdi_device_ids": ["nvshare.com/claim=u.gpu", f"nvidia.com/gpu={GPU_A}"],
            **({} if version == "1.34" else {"share_id": "s"}),
        }
        assert answer == {"claims": {"u": {"devices": [expected]}}}
        assert node.recorded == {"u"}
        assert await kubelet.ask(channel, UNPREPARE, claims=asked) == {"claims": {"u": {}}}
        assert node.recorded == set()
        instance.inventory.publish(Snapshot((Offer(GPU_A, 10, problem="lost"),)))
        told = await anext(kubelet.watch(channel, "v1alpha1.DRAResourceHealth.NodeWatchResources"))
        (health,) = told["devices"]
        assert (health["device"]["device_name"], health["health"]) == (GPU_A.lower(), "UNHEALTHY")
        assert health.get("message") == ("lost" if version == "1.36" else None)

"""kubelet finds the driver, asks it for claims, and finds it again after whatever happens."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest
from prometheus_client import generate_latest

from nvshare.dra import DRIVER
from nvshare.kubelet.dra_v1_pb2 import Claim, Device
from tests.deviceplugin.claims.bench import GPU_A, GPU_B, NODE, NodeOfClaims, claim, result
from tests.deviceplugin.claims.fake_kubelet import FakeKubelet
from tests.deviceplugin.claims.instance import Instance
from tests.polling import until


@pytest.fixture
def root() -> Iterator[Path]:
    # Short, because a socket's path must be.
    with tempfile.TemporaryDirectory(prefix="dra-%41-") as path:
        yield Path(path)


@pytest.fixture
def node(tmp_path: Path) -> NodeOfClaims:
    return NodeOfClaims(tmp_path)


@pytest.fixture
async def kubelet(root: Path) -> AsyncIterator[FakeKubelet]:
    fake = FakeKubelet(root)
    fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def driver(node: NodeOfClaims, root: Path) -> AsyncIterator[Instance]:
    instance = Instance(node, root)
    yield instance
    await instance.stop()


def of(uid: str, name: str = "share") -> Claim:
    return Claim(uid=uid, namespace="team", name=name)


async def test_kubelet_finds_it_only_later(kubelet: FakeKubelet, node: NodeOfClaims, root: Path) -> None:
    """Which has to find nothing for a while, to take away what was said before. Its end waits for nothing."""
    clock = asyncio.get_running_loop().time
    began = clock()
    instance = Instance(node, root, wait_seconds=0.3)
    await until(lambda: instance.registration.ready, "kubelet has taken the driver")
    assert clock() - began >= 0.3
    await instance.stop()
    never = Instance(node, root, wait_seconds=600.0)
    await never.stop()
    assert never.registration.state == "stopped"
    assert len(kubelet.drivers) <= 1


async def test_registers(kubelet: FakeKubelet, driver: Instance, root: Path) -> None:
    """Under the driver's name, with what kubelet can ask; at its end nothing of it is left."""
    await until(lambda: driver.registration.ready, "kubelet has taken the driver")
    ((socket, registered),) = kubelet.drivers.items()
    assert registered.info.name == DRIVER == "gpu.nvshare.com"
    assert list(registered.info.supported_versions) == ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]
    assert socket.name.startswith("gpu.nvshare.com-")
    assert socket.name.endswith("-reg.sock")
    assert Path(registered.info.endpoint).parent == root / "plugins" / DRIVER
    await driver.stop()
    assert not driver.registration.ready
    assert not list(kubelet.registry.iterdir())
    assert not list((root / "plugins" / DRIVER).glob("*.sock"))


async def test_prepares(kubelet: FakeKubelet, driver: Instance, node: NodeOfClaims) -> None:
    """Devices of each request, with what kubelet needs to start containers with them; the same when asked again."""
    node.api.add(claim("u", result(GPU_A, "a", shareID="s"), result(GPU_B, "a"), result(GPU_B, "b/small")))
    await until(lambda: kubelet.drivers, "kubelet has taken the driver")
    for _ in range(2):
        answer = (await kubelet.prepare(of("u")))["u"]
        assert not answer.error
        a, b = GPU_A, GPU_B
        own = "nvshare.com/claim=u"
        assert list(answer.devices) == [
            Device(
                request_names=["a"],
                pool_name=NODE,
                device_name=a.lower(),
                cdi_device_ids=[f"{own}.a", f"nvidia.com/gpu={a}"],
                share_id="s",
            ),
            Device(request_names=["a"], pool_name=NODE, device_name=b.lower(), cdi_device_ids=[f"nvidia.com/gpu={b}"]),
            Device(
                request_names=["b"],
                pool_name=NODE,
                device_name=b.lower(),
                cdi_device_ids=[f"{own}.b", f"nvidia.com/gpu={b}"],
            ),
        ]
    assert await kubelet.unprepare(of("u"), of("unknown", "other")) == {"u": "", "unknown": ""}
    assert node.recorded == set()


async def test_one_that_is_wrong(kubelet: FakeKubelet, driver: Instance, node: NodeOfClaims) -> None:
    """Of several claims only the wrong one fails, in words, and it is counted."""
    node.api.add(claim("u"))
    node.api.add(claim("v", result(memory=None), name="wrong"))
    await until(lambda: kubelet.drivers, "kubelet has taken the driver")
    answers = await kubelet.prepare(of("u"), of("v", "wrong"))
    assert not answers["u"].error
    assert "need the feature gate DRAConsumableCapacity" in answers["v"].error
    assert not answers["v"].devices
    assert await kubelet.unprepare(of("../v")) == {"../v": "'../v' is no uid of a claim"}
    text = generate_latest(driver.metrics.registry).decode()
    assert 'nvshare_plugin_refused_requests_total{method="NodePrepareResources"} 1.0' in text
    assert 'nvshare_plugin_request_seconds_count{method="NodePrepareResources"} 1.0' in text


async def test_kubelet_restarts(kubelet: FakeKubelet, driver: Instance, node: NodeOfClaims) -> None:
    """It finds the same sockets again by itself."""
    await until(lambda: kubelet.drivers, "kubelet has taken the driver")
    (socket,) = kubelet.drivers
    await kubelet.stop()
    kubelet.start()
    await until(lambda: kubelet.drivers, "kubelet has taken the driver again")
    assert set(kubelet.drivers) == {socket}


async def test_sockets_that_go(kubelet: FakeKubelet, driver: Instance, node: NodeOfClaims) -> None:
    """Whichever was deleted: both are made anew, under names that kubelet did not know."""
    node.api.add(claim("u"))
    seen: set[Path] = set()
    for which in ("registration", "endpoint"):
        await until(lambda: kubelet.drivers.keys() - seen, "kubelet has taken the driver")
        ((socket, registered),) = kubelet.drivers.items()
        seen.add(socket)
        (socket if which == "registration" else Path(registered.info.endpoint)).unlink()
    await until(lambda: kubelet.drivers.keys() - seen, "kubelet has taken the driver")
    await until(lambda: len(kubelet.drivers) == 1, "kubelet has forgotten the former one")
    assert not (await kubelet.prepare(of("u")))["u"].error


async def test_refused(kubelet: FakeKubelet, node: NodeOfClaims, root: Path) -> None:
    """It is said with kubelet's words; kubelet tries again by itself."""
    kubelet.refusal = "wrong version"
    driver = Instance(node, root)
    await until(lambda: driver.registration.state == "kubelet refused it: wrong version", "kubelet has refused it")
    assert not driver.registration.ready
    kubelet.refusal = ""
    await until(lambda: driver.registration.ready, "kubelet has taken it")
    await driver.stop()


async def test_no_kubelet(node: NodeOfClaims, root: Path) -> None:
    """Without kubelet's folder it is said what is missing; with it, that kubelet did not come. Both pass."""
    driver = Instance(node, root)
    missing = f"its sockets can't be made: there is no folder {root}/plugins_registry (is --kubelet-dir right?)"
    await until(lambda: driver.registration.state == missing, "it is said")
    kubelet = FakeKubelet(root)
    await until(lambda: driver.registration.state.startswith("waiting for kubelet"), "it waits")
    kubelet.start()
    await until(lambda: driver.registration.ready, "kubelet has taken it")
    await driver.stop()
    assert driver.registration.state == "stopped"
    await kubelet.stop()


async def test_left_by_a_killed_one(kubelet: FakeKubelet, node: NodeOfClaims, root: Path) -> None:
    """Sockets behind which is nobody are removed; those of others stay."""
    folder = root / "plugins" / DRIVER
    folder.mkdir(parents=True)
    dead = [kubelet.registry / "gpu.nvshare.com-0-reg.sock", folder / "0.sock"]
    other = kubelet.registry / "csi.example.com-reg.sock"
    for path in (*dead, other):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    driver = Instance(node, root)
    await until(lambda: driver.registration.ready, "kubelet has taken the driver")
    assert not any(path.exists() for path in dead)
    assert other.exists()
    await driver.stop()


async def test_two_instances(kubelet: FakeKubelet, driver: Instance, node: NodeOfClaims, root: Path) -> None:
    """As in a rollout: kubelet asks the newer one, and goes on when the former has ended."""
    node.api.add(claim("u"))
    await until(lambda: driver.registration.ready, "kubelet has taken the first")
    assert not (await kubelet.prepare(of("u")))["u"].error
    second = Instance(node, root)
    await until(lambda: second.registration.ready, "kubelet has taken the second")
    await driver.stop()
    assert second.registration.ready
    assert await kubelet.unprepare(of("u")) == {"u": ""}
    assert dict(second.claims.records) == {}
    await second.stop()


async def test_what_is_asked_at_the_end(kubelet: FakeKubelet, driver: Instance, node: NodeOfClaims) -> None:
    """A claim that is being prepared when the driver ends is answered still."""
    node.api.add(claim("u"))
    await until(lambda: driver.registration.ready, "kubelet has taken the driver")
    asked, answer = asyncio.Event(), asyncio.Event()
    get = node.api.get

    async def slowly(namespace: str, name: str) -> dict[str, object]:
        asked.set()
        await answer.wait()
        return await get(namespace, name)

    driver.claims._get_claim = slowly
    channel = asyncio.create_task(kubelet.prepare(of("u")))
    await asked.wait()
    kubelet._watching.cancel()  # type: ignore[union-attr]
    ended = asyncio.create_task(driver.stop())
    await until(lambda: driver.registration.state == "stopping", "it stops")
    answer.set()
    assert not (await channel)["u"].error
    await ended


async def test_streams_at_the_end(kubelet: FakeKubelet, driver: Instance) -> None:
    """They end in order, so that nothing waits for them."""
    await until(lambda: kubelet.health, "kubelet knows the GPU's health")
    kubelet._watching.cancel()  # type: ignore[union-attr]
    await driver.stop()
    await until(lambda: kubelet.ended_streams, "the stream has ended")
    assert kubelet.ended_streams[0] is grpc.StatusCode.OK
    assert kubelet.health == {}

"""The command on a node with a GPU in MIG mode and a whole one, both simulated, where MIG profiles name resources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc
import pytest

from nvshare import simgpu
from tests.deviceplugin.fake_kubelet import FakeKubelet, KubeletOfSeveral
from tests.deviceplugin.process import Node, PluginProcess
from tests.polling import until

Start = Callable[..., PluginProcess]
NAMES = ("nvshare.com/gpu", "nvshare.com/mig-1g.10gb", "nvshare.com/mig-2g.20gb.me")
EACH = {"gpu": 3, "mig_1g_10gb": 6, "mig_2g_20gb_me": 3}
"""What is healthy of them."""


@pytest.fixture
async def kubelet(node: Node) -> AsyncIterator[KubeletOfSeveral]:
    fake = KubeletOfSeveral(node.kubelet_dir)
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
def simulated(node: Node) -> Path:
    """The folder of the simulated GPUs, of which the second one is in MIG mode."""
    folder = node.root / "simgpu"
    folder.mkdir()
    (folder / "nvml").write_text("mig 1 1g.10gb 2g.20gb+me 1g.10gb\n")
    return folder


@pytest.fixture
def start_on(node: Node, simulated: Path, start: Start) -> Iterator[Start]:
    """Starts the command there, under a scheduler."""
    variables = {"NVIDIA_VISIBLE_DEVICES": "all", **simgpu.environment(simulated, "2x1GiB")}
    with node.scheduler_socket():
        yield lambda *options: start("--virtual-devices=3", *options, **variables)


async def test_each_profile_is_a_resource(kubelet: KubeletOfSeveral, start_on: Start, node: Node) -> None:
    """Each is offered, preferred, and allocated by its own; none gives out another one's; the end leaves nothing."""
    plugin = start_on("--mig-strategy=mixed", "--fail-requests-greater-than-one")
    await until(lambda: kubelet.has(**EACH), "all of them are known", timeout=30)
    whole, small, large = (kubelet.resources[name] for name in NAMES)
    assert {device[:4] for device in whole.devices} == {"GPU-"}
    assert {device[:4] for device in (*small.devices, *large.devices)} == {"MIG-"}
    assert len({*whole.devices, *small.devices, *large.devices}) == 12
    for resource in (whole, small, large):
        first = min(resource.devices)
        assert (await resource.allocate([first])).envs["NVIDIA_VISIBLE_DEVICES"] == first.partition("__")[0]
        assert len(await resource.prefer(list(resource.devices), 1)) == 1
    with pytest.raises(grpc.aio.AioRpcError, match="this node has no GPU MIG-"):
        await small.allocate([min(large.devices)])
    with pytest.raises(grpc.aio.AioRpcError, match=r"nvshare.com/mig-1g.10gb: 2 requested, but this node gives"):
        await small.allocate(sorted(small.devices)[:2])
    assert await asyncio.to_thread(plugin.get, "/readyz") == (200, "ok\n")
    said = {line["index"]: line["resource"] for line in plugin.lines() if line["event"] == "GPU found"}
    assert said == {"0": NAMES[0], "1:0": NAMES[1], "1:1": NAMES[2], "1:2": NAMES[1]}
    assert await asyncio.to_thread(plugin.terminate) == 0
    assert list(node.kubelet_dir.glob("nvshare*.sock")) == []


@pytest.mark.parametrize(("strategy", "healthy"), [("single", 12), ("none", 3)])
async def test_other_strategies(kubelet: KubeletOfSeveral, start_on: Start, strategy: str, healthy: int) -> None:
    """Everything is one resource; or MIG devices are none."""
    start_on(f"--mig-strategy={strategy}")
    await until(lambda: kubelet.has(gpu=healthy), "the resource is known", timeout=30)


async def test_health_of_each(kubelet: KubeletOfSeveral, start_on: Start, simulated: Path) -> None:
    """An error of the whole GPU takes nothing from the MIG devices, and one of their GPU takes all of these."""
    start_on("--mig-strategy=mixed", "--recovery-seconds=0")
    await until(lambda: kubelet.has(**EACH), "all of them are known", timeout=30)
    with (simulated / "events").open("a") as events:
        events.write("0 79\n")
    await until(lambda: kubelet.has(**EACH | {"gpu": 0}), "the whole GPU is unhealthy")
    await until(lambda: kubelet.has(**EACH), "it is well again", timeout=30)
    with (simulated / "events").open("a") as events:
        events.write("1 79\n")
    await until(lambda: kubelet.has(gpu=3, mig_1g_10gb=0, mig_2g_20gb_me=0), "the MIG devices are unhealthy")


async def test_kubelet_restarts(kubelet: KubeletOfSeveral, start_on: Start) -> None:
    """Each is registered again."""
    start_on("--mig-strategy=mixed")
    await until(lambda: kubelet.has(**EACH), "all of them are known", timeout=30)
    await kubelet.kill()
    assert kubelet.resources == {}
    await kubelet.start()
    await until(lambda: kubelet.has(**EACH), "all of them are known again", timeout=30)


async def test_rollout(kubelet: KubeletOfSeveral, start_on: Start) -> None:
    """The next instance follows for each, while kubelet has the devices of each all the time."""
    first = start_on("--mig-strategy=mixed")
    await until(lambda: kubelet.has(**EACH), "all of them are known", timeout=30)
    second = start_on("--mig-strategy=mixed")
    for name in NAMES:
        await until(lambda name=name: second.said(f"which serves {name}:"), f"it waits for {name}", timeout=30)
    assert (await asyncio.to_thread(second.get, "/readyz"))[0] == 200
    assert await asyncio.to_thread(first.terminate) == 0
    for name in NAMES:
        resource = kubelet.resources[name]
        await until(lambda r=resource: len(r.registrations) == 3, "the second one serves alone")
        assert all(set(update.values()) == {"Healthy"} for update in resource.updates)
        assert resource.lost == 0
    assert kubelet.has(**EACH)


async def test_one_that_kubelet_refuses(kubelet: KubeletOfSeveral, start_on: Start) -> None:
    """The others are served; the plugin is not ready, and says which one is not."""
    plugin = start_on("--mig-strategy=mixed")
    await until(lambda: kubelet.has(**EACH), "all of them are known", timeout=30)
    refused = kubelet.resources[NAMES[1]]
    refused.refusal = "not today"
    await refused.close_streams()
    await until(lambda: refused.healthy == 0, "kubelet has none of it")
    await until(lambda: plugin.said("kubelet refused the registration"), "it is refused")
    status, reasons = await asyncio.to_thread(plugin.get, "/readyz")
    assert (status, reasons.partition(":")[0]) == (503, f"{NAMES[1]} is not registered with kubelet")
    assert len(reasons.splitlines()) == 1
    _, metrics = await asyncio.to_thread(plugin.get, "/metrics")
    assert "nvshare_plugin_list_and_watch_streams 2.0" in metrics


@pytest.fixture
def by_label(node: Node) -> tuple[str, str]:
    """Options with which the node's label says the strategy, and single where there is none."""
    folder = node.root / "configurations"
    folder.mkdir()
    for strategy in ("single", "mixed"):
        (folder / f"{strategy}.yaml").write_text(f"mig_strategy: {strategy}")
    node.run_dir.node_config.parent.mkdir(parents=True)
    return f"--config-dir={folder}", "--config-default=single"


async def test_the_strategy_changes(
    kubelet: KubeletOfSeveral, start_on: Start, node: Node, by_label: tuple[str, str]
) -> None:
    """There and back: whole GPUs are never lost, and no name keeps devices that it has no more."""
    start_on(*by_label)
    await until(lambda: kubelet.has(gpu=12), "all are one resource", timeout=30)
    node.run_dir.node_config.write_text("mixed")
    await until(lambda: kubelet.has(**EACH), "profiles have names", timeout=30)
    node.run_dir.node_config.unlink()
    await until(lambda: kubelet.has(gpu=12, mig_1g_10gb=0, mig_2g_20gb_me=0), "all are one resource again", timeout=30)
    assert kubelet.resources[NAMES[0]].lost == 0


async def test_a_change_waits_for_each(
    kubelet: KubeletOfSeveral, start_on: Start, node: Node, by_label: tuple[str, str]
) -> None:
    """What was offered stays so until kubelet has taken every new name."""
    plugin = start_on(*by_label)
    await until(lambda: kubelet.has(gpu=12), "all are one resource", timeout=30)
    refusing = kubelet.resources[NAMES[1]] = FakeKubelet(node.kubelet_dir)
    refusing.refusal = "not today"
    node.run_dir.node_config.write_text("mixed")
    await until(lambda: kubelet.has(gpu=12, mig_1g_10gb=0, mig_2g_20gb_me=3), "it has the other one", timeout=30)
    refused = "kubelet refused the registration"
    await until(lambda: sum(line["event"] == refused for line in plugin.lines()) > 2, "it tried again", timeout=30)
    assert kubelet.has(gpu=12, mig_1g_10gb=0, mig_2g_20gb_me=3)
    refusing.refusal = None
    await until(lambda: kubelet.has(**EACH), "profiles have names", timeout=30)


async def test_cdi_devices(kubelet: KubeletOfSeveral, start_on: Start, node: Node) -> None:
    """Those of all names are described before the first is offered."""
    cdi_dir = node.root / "cdi"
    cdi_dir.mkdir()
    start_on("--mig-strategy=mixed", "--device-list-strategy=cdi-cri", f"--cdi-spec-dir={cdi_dir}")
    await until(lambda: kubelet.has(**EACH), "all of them are known", timeout=30)
    described = {each["name"] for each in json.loads((cdi_dir / "nvshare.com-gpu.json").read_text())["devices"]}
    offered = {device for resource in kubelet.resources.values() for device in resource.devices}
    assert described == {device.partition("__")[0] for device in offered} | {"all"}
    for resource in kubelet.resources.values():
        assert all(set(update.values()) == {"Healthy"} for update in resource.updates)
        device = min(resource.devices)
        names = [each.name for each in (await resource.allocate([device])).cdi_devices]
        assert names == [f"{kind}={device.partition('__')[0]}" for kind in ("nvidia.com/gpu", "nvshare.com/gpu")]

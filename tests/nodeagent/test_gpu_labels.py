"""What labels say of a node's GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from nvshare.admin import admin_pb2
from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiServer
from nvshare.log import Log, LogFormat, LogLevel, LogLines
from nvshare.nodeagent.agent import Agent
from nvshare.nodeagent.gpu_labels import GpuLabels, Model, labels_of
from nvshare.nodeagent.node import node_of
from nvshare.nodeagent.options import Options
from nvshare.paths import RunDir
from tests.kubernetes.documents import NODE, plugin_pod
from tests.kubernetes.fake_api import Cluster
from tests.nodeagent.conftest import Listener, PluginPages, at_work, listening, plugin_serving
from tests.polling import until

A100 = Model("NVIDIA A100-SXM4-40GB", 40960 << 20)
T4 = Model("Tesla T4", 15360 << 20)


@dataclass
class Shower(Listener):
    """A scheduler that shows devices."""

    devices: list[admin_pb2.Device] = field(default_factory=list)
    asked: int = 0

    async def GetStatus(self, request: admin_pb2.GetStatusRequest, context: Any) -> admin_pb2.Status:  # noqa: N802
        self.asked += 1
        return admin_pb2.Status(devices=self.devices)


def device(uuid: str, model: Model) -> admin_pb2.Device:
    return admin_pb2.Device(uuid=uuid, name=model.name, total_bytes=model.memory_bytes)


@pytest.fixture
def labels(reached: Account, run_dir: RunDir, log: Log) -> GpuLabels:
    """Of the cluster's node."""
    return GpuLabels(ApiServer(reached, lambda _: None), NODE, run_dir.admin_socket, log)


def shown(cluster: Cluster) -> dict[str, str]:
    """The labels about GPUs that the node has."""
    found: dict[str, str] = cluster.node()["metadata"]["labels"]
    own = "nvshare.com/gpu."
    return {key.removeprefix(own): value for key, value in found.items() if key.startswith(own)}


@pytest.mark.parametrize(
    ("models", "labels"),
    [
        ([], {}),
        ([A100, A100], {"count": "2", "product": "NVIDIA-A100-SXM4-40GB", "memory": "40960"}),
        ([A100, T4], {"count": "2", "memory": "15360"}),
        ([Model("GB10", 0)], {"count": "1", "product": "GB10"}),
        ([Model("  (R) Ünknown / 2  ", 1 << 30)], {"count": "1", "product": "R-nknown-2", "memory": "1024"}),
        ([Model("x" * 62 + " y", 1 << 30)], {"count": "1", "product": "x" * 62, "memory": "1024"}),
    ],
)
def test_values(models: list[Model], labels: dict[str, str]) -> None:
    """As GPU feature discovery writes them: MiB, and names without what labels can't have."""
    assert labels_of(models) == {f"nvshare.com/gpu.{key}": value for key, value in labels.items()}


async def test_they_follow(cluster: Cluster, labels: GpuLabels, run_dir: RunDir) -> None:
    """What the plugin offers counts; the scheduler is asked once, nothing is written twice, what others change too."""
    scheduler = Shower(devices=[device("GPU-a", T4), device("GPU-b", T4), device("GPU-c", A100)])
    t4s = {"count": "2", "product": "Tesla-T4", "memory": "15360"}
    async with listening(scheduler, run_dir):
        before = node_of(cluster.node())
        for now in (0.0, 1.0):
            await labels.bring_up_to_date(before, {"GPU-a", "GPU-b"}, now)
        await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a", "GPU-b"}, 2.0)
        assert shown(cluster) == t4s
        assert (len(cluster.written), scheduler.asked) == (1, 1)
        cluster.patch_node("metadata", {"metadata": {"labels": {"nvshare.com/gpu.count": "9"}}})
        await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a", "GPU-b"}, 3.0)
        assert shown(cluster) == t4s
        await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a", "GPU-c"}, 4.0)
        assert shown(cluster) == {"count": "2", "memory": "15360"}
        await labels.bring_up_to_date(node_of(cluster.node()), set(), 5.0)
        assert shown(cluster) == {}


async def test_what_others_take_away(cluster: Cluster, labels: GpuLabels, run_dir: RunDir) -> None:
    """A node that was deleted and registered anew has none, as before the first write: they are written again."""
    new = cluster.node()
    async with listening(Shower(devices=[device("GPU-a", T4)]), run_dir):
        await labels.bring_up_to_date(node_of(new), {"GPU-a"}, 0.0)
        cluster.put("/api/v1/nodes", new)
        assert shown(cluster) == {}
        await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a"}, 1.0)
    assert shown(cluster) == {"count": "1", "product": "Tesla-T4", "memory": "15360"}


async def test_what_is_not_known_changes_nothing(cluster: Cluster, labels: GpuLabels, run_dir: RunDir) -> None:
    """No scheduler, or one that does not show the GPU."""
    cluster.patch_node("metadata", {"metadata": {"labels": {"nvshare.com/gpu.count": "1"}}})
    await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a"}, 0.0)
    async with listening(Shower(devices=[device("GPU-b", T4), admin_pb2.Device(uuid="GPU-a")]), run_dir):
        await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a"}, 1.0)
    assert shown(cluster) == {"count": "1"}
    assert len(cluster.written) == 1


async def test_refused(cluster: Cluster, labels: GpuLabels, run_dir: RunDir, lines: CapturingLogger) -> None:
    """It is tried again after a while, and said once."""
    cluster.refusals["PATCH"] = (403, "nodes is forbidden")
    async with listening(Shower(devices=[device("GPU-a", T4)]), run_dir):
        for now in (0.0, 1.0, 11.0):
            await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a"}, now)
        assert len(cluster.asked) == 2
        cluster.refusals.clear()
        await labels.bring_up_to_date(node_of(cluster.node()), {"GPU-a"}, 30.0)
    assert shown(cluster)["product"] == "Tesla-T4"
    assert [call.method_name for call in lines.calls] == ["warning", "info"]


@pytest.mark.usefixtures("quick")
async def test_the_agent_writes_them(cluster: Cluster, reached: Account, run_dir: RunDir, log: Log) -> None:
    """Of the GPUs that the plugin's pages name. One that has just begun knows of none yet, and changes nothing."""
    pages, scheduler = PluginPages(), Shower(devices=[device("GPU-a", T4), device("GPU-b", T4)])
    options = Options(NODE, run_dir, reached, "127.0.0.1:0", LogFormat.JSON, LogLevel.INFO)
    async with plugin_serving(pages), listening(scheduler, run_dir), at_work(Agent(options, log, LogLines(2)).run()):
        cluster.put("/api/v1/pods", plugin_pod(pages.port))
        wanted = {"count": "2", "product": "Tesla-T4", "memory": "15360"}
        await until(lambda: shown(cluster) == wanted, "the labels are there", 30.0)
        pages.unready, pages.figures = ["NVML has not answered yet"], 'nvshare_plugin_nvml_state{state="unknown"} 1\n'
        begun = pages.looks
        await until(lambda: pages.looks >= begun + 3, "the agent has looked, and done what follows", 30.0)
        assert shown(cluster) == wanted
        pages.unready, pages.figures = [], 'nvshare_plugin_nvml_state{state="no_gpu"} 1\n'
        await until(lambda: not shown(cluster), "the labels are gone", 30.0)

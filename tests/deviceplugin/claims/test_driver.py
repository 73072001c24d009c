"""The driver as a whole: what the cluster sees, what kubelet and the scheduler are told, and who follows whom."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import CapturingLogger

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.answers.preference import AllocationPolicy
from nvshare.deviceplugin.changeover import Changeover, Mode
from nvshare.deviceplugin.claims.claims import Claims
from nvshare.deviceplugin.no_driver import NoDriver
from nvshare.deviceplugin.settings.choice import Choice
from nvshare.deviceplugin.settings.choosing import choose
from nvshare.deviceplugin.settings.configuration import AllocationMode, Configuration
from nvshare.dra import DRIVER
from nvshare.kubelet.dra_v1_pb2 import Claim
from nvshare.kubelet.drahealth_v1alpha1_pb2 import HEALTHY, UNHEALTHY
from nvshare.kubernetes.account import Account
from nvshare.log import Log, LogLines
from tests.deviceplugin.claims.api_rules import mistakes
from tests.deviceplugin.claims.bench import claim, result
from tests.deviceplugin.claims.driver_bench import CLAIMS, GIB, Node
from tests.deviceplugin.claims.fake_kubelet import FakeKubelet
from tests.deviceplugin.fake_kubelet import FakeKubelet as FakePluginKubelet
from tests.kubernetes.documents import NODE
from tests.kubernetes.fake_api import SLICES, Cluster
from tests.polling import until

pytestmark = pytest.mark.usefixtures("quick_mirror")
PLUGIN, DRA = AllocationMode


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits longer than a test need."""
    for name, seconds in (
        ("claims.publisher._SHORTEST_PAUSE", 0.02),
        ("claims.publisher._LONGEST_PAUSE", 0.1),
        ("claims.session._LOOK_SECONDS", 0.05),
        ("settled.SETTLED_SECONDS", 0.2),
        ("driver._POLL_SECONDS", 0.05),
        ("leftover_claims._LOOK_SECONDS", 0.05),
        ("leftover_claims._WAIT_SECONDS", 0.2),
        ("plugin._LOOK_SECONDS", 0.05),
        ("node_side._CHECK_SECONDS", 0.1),
    ):
        monkeypatch.setattr(f"nvshare.deviceplugin.{name}", seconds)


@pytest.fixture
def lines_to_nowhere() -> LogLines:
    return LogLines(os.open(os.devnull, os.O_WRONLY))


@pytest.fixture
async def node(reached: Account, cluster: Cluster, log: Log, lines_to_nowhere: LogLines) -> AsyncIterator[Node]:
    # Short, because a socket's path must be.
    with tempfile.TemporaryDirectory(prefix="dra-") as root:
        made = Node(Path(root), reached, cluster, log, lines_to_nowhere)
        await made.start_scheduler()
        yield made
        await made.stop()


@pytest.fixture
async def kubelet(node: Node) -> AsyncIterator[FakeKubelet]:
    fake = FakeKubelet(node.root)
    fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def plugins(node: Node) -> AsyncIterator[FakePluginKubelet]:
    """kubelet as device plugins see it."""
    fake = FakePluginKubelet(node.root / "device-plugins")
    await fake.start()
    yield fake
    await fake.stop()


async def is_ready(mode: Mode) -> None:
    await until(lambda: not mode.unready(), "it is ready", timeout=20)


async def prepare(node: Node, kubelet: FakeKubelet, uid: str, memory: str = "2Gi") -> str:
    """A claim to GPU-a; the error."""
    document = claim(uid, result("GPU-a", memory=memory, pool=NODE), name=uid)
    node.cluster.put(CLAIMS, document)
    answers = await kubelet.prepare(Claim(uid=uid, namespace="team", name=uid))
    return answers[uid].error


async def test_from_start_to_end(node: Node, kubelet: FakeKubelet) -> None:
    """What can be claimed is published, a claim is prepared and told; at the end the slice stays."""
    driver = node.start()
    await is_ready(driver)
    assert mistakes(node.cluster.slice()) == []
    assert node.memory() == {"gpu-a": "15Gi", "gpu-b": "15Gi"}
    assert await prepare(node, kubelet, "u1") == ""
    await until(lambda: [each.uid for each in node.scheduler.claims] == ["u1"], "the scheduler knows it")
    (told,) = node.scheduler.claims[0].devices
    assert (told.memory_limit_bytes, told.memory_request_bytes) == (2 * GIB, 2 * GIB)
    figure = driver.metrics.registry.get_sample_value
    assert figure("nvshare_plugin_slice_writes_total", {"result": "created"}) == 1
    assert figure("nvshare_plugin_claimable_bytes", {"gpu": "GPU-a"}) == 15 * GIB
    assert figure("nvshare_plugin_claimable_shares", {"gpu": "GPU-a"}) == 10
    await until(lambda: figure("nvshare_plugin_claims_prepared") == 1, "it is counted")
    await node.end(driver)
    assert len(node.memory()) == 2
    assert node.records == ["u1"]


async def test_records_that_can_not_be_read(node: Node, kubelet: FakeKubelet, lines: CapturingLogger) -> None:
    """As on a disk that fails: it says so once, however often it tries, and serves when they can be."""
    folder = node.root / "plugins" / DRIVER / "claims"
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    driver = node.start()
    unread = f"{DRIVER} does not serve: records of claims can't be read: [Errno {errno.ENOTDIR}]"
    tries = 0
    while tries < 3:
        await until(lambda: any(reason.startswith(unread) for reason in driver.unready()), "it can't", timeout=20)
        await until(lambda: not any(reason.startswith(unread) for reason in driver.unready()), "it tries", timeout=20)
        tries += 1
    folder.unlink()
    await is_ready(driver)
    assert str(lines.calls).count("records of claims can't be read") == 1


async def test_nothing_before_the_scheduler_has_told(node: Node, kubelet: FakeKubelet) -> None:
    """It does not know what to offer; kubelet has it all the same, for pods that are there."""
    node.scheduler.status = admin_pb2.Status()
    driver = node.start()
    await until(lambda: kubelet.drivers, "it is registered", timeout=20)
    await until(lambda: any("has not told" in reason for reason in driver.unready()), "it waits", timeout=20)
    assert node.cluster.slices() == []
    node.scheduler.has("GPU-a", "GPU-b", gib=8)
    await is_ready(driver)
    assert node.memory() == {"gpu-a": "7Gi", "gpu-b": "7Gi"}


async def test_a_gpu_gets_sick(node: Node, kubelet: FakeKubelet) -> None:
    """It is tainted and stays in the slice; kubelet is told the same, and when it is well again."""
    node.nvml.sick["GPU-b"] = "the driver asks for: GPU reset"
    driver = node.start(recovery_seconds=0)
    await is_ready(driver)
    await until(lambda: node.devices()["gpu-b"].get("taints"), "it is tainted", timeout=20)
    assert node.devices()["gpu-b"]["taints"][0]["value"] == "the-driver-asks-for-gpu-reset"
    assert "taints" not in node.devices()["gpu-a"]
    await until(lambda: len(kubelet.health) == 2, "kubelet is told")
    a, b = kubelet.health[NODE, "gpu-a"], kubelet.health[NODE, "gpu-b"]
    assert (a.health, a.message) == (HEALTHY, "")
    assert (b.health, b.message) == (UNHEALTHY, "the driver asks for: GPU reset")
    node.nvml.sick.clear()
    await until(lambda: kubelet.health[NODE, "gpu-b"].health == HEALTHY, "it is told that it is well", timeout=20)


@pytest.mark.parametrize(("policy", "order"), [("spread", ["gpu-b", "gpu-a"]), ("packed", ["gpu-a", "gpu-b"])])
async def test_what_is_claimed_next(node: Node, kubelet: FakeKubelet, policy: str, order: list[str]) -> None:
    """Of the GPU of which least is claimed, as Kubernetes takes the slice's first that has enough; or of the same."""
    driver = node.start(allocation_policy=AllocationPolicy(policy))
    await is_ready(driver)
    assert list(node.devices()) == ["gpu-a", "gpu-b"]
    assert await prepare(node, kubelet, "u1") == ""
    await until(
        lambda: driver.metrics.registry.get_sample_value("nvshare_plugin_claims_prepared") == 1, "it is counted"
    )
    # What is written for another reason shows the order as well.
    node.nvml.sick["GPU-b"] = "the driver asks for: GPU reset"
    await until(lambda: node.devices()["gpu-b"].get("taints"), "it is tainted", timeout=20)
    assert list(node.devices()) == order


async def test_what_pods_of_the_plugin_hold(node: Node, kubelet: FakeKubelet) -> None:
    """It is taken off: three of ten virtual devices."""
    held = admin_pb2.Allocation(virtual_device_ids=["GPU-a__1", "GPU-a__2", "GPU-a__9"])
    node.scheduler.status.devices[0].allocations.append(held)
    await is_ready(node.start())
    assert node.devices()["gpu-a"]["capacity"]["shares"]["value"] == "7"
    assert node.memory() == {"gpu-a": "10752Mi", "gpu-b": "15Gi"}


async def test_kubelet_deletes_the_slice(node: Node, kubelet: FakeKubelet) -> None:
    """It is there again at once."""
    await is_ready(node.start())
    node.cluster.delete(SLICES, node.cluster.slice()["metadata"]["uid"])
    await until(lambda: len(node.memory()) == 2, "it is there again")


async def test_killed(node: Node, kubelet: FakeKubelet) -> None:
    """The next one knows the claims, and writes no slice that is right already, in whichever order."""
    driver = node.start()
    await is_ready(driver)
    assert await prepare(node, kubelet, "u1") == ""
    await until(lambda: list(node.devices()) == ["gpu-b", "gpu-a"], "the least claimed is first", timeout=20)
    await node.kill(driver)
    node.cluster.objects[CLAIMS].clear()
    writes = len(node.cluster.asked)
    await is_ready(node.start())
    assert (await kubelet.prepare(Claim(uid="u1", namespace="team", name="u1")))["u1"].error == ""
    assert not any(line.startswith(("POST", "PUT")) for line in node.cluster.asked[writes:])


async def test_killed_when_little_is_claimed(node: Node, kubelet: FakeKubelet) -> None:
    """The order that the next one finds is as good as that of the indexes, and stays."""
    driver = node.start()
    await is_ready(driver)
    await node.kill(driver)
    (written,) = node.cluster.slices()
    written["spec"]["devices"].reverse()
    writes = len(node.cluster.asked)
    await is_ready(node.start())
    assert list(node.devices()) == ["gpu-b", "gpu-a"]
    assert not any(line.startswith(("POST", "PUT")) for line in node.cluster.asked[writes:])


async def test_an_instance_that_follows(node: Node, kubelet: FakeKubelet) -> None:
    """It is ready while the other serves, and neither publishes nor serves before that has ended."""
    first = node.start()
    await is_ready(first)
    second = node.start(virtual_devices=4)
    await until(lambda: second.can_follow, "it can follow", timeout=20)
    assert second.unready() == []
    assert len(kubelet.drivers) == 1
    assert node.devices()["gpu-a"]["capacity"]["shares"]["value"] == "10"
    assert await prepare(node, kubelet, "u1") == ""
    await node.end(first)
    await until(lambda: node.devices()["gpu-a"]["capacity"]["shares"]["value"] == "4", "it serves", timeout=20)
    await until(lambda: kubelet.drivers, "it is registered", timeout=20)
    assert await kubelet.unprepare(Claim(uid="u1", namespace="team", name="u1")) == {"u1": ""}
    assert node.records == []


async def test_no_rights(node: Node, kubelet: FakeKubelet) -> None:
    """It says what is missing, and goes on when it is there."""
    node.cluster.refusals[SLICES] = (403, "resourceslices is forbidden")
    driver = node.start()
    await until(lambda: any("the chart gives them" in each for each in driver.unready()), "it is said", timeout=20)
    assert not driver.can_follow
    node.cluster.refusals.clear()
    await is_ready(driver)


async def test_no_account(log: Log, lines: CapturingLogger, lines_to_nowhere: LogLines) -> None:
    """It is never ready, takes no one's place, and ends when it is told to."""
    driver = NoDriver("there is no token", log, lines_to_nowhere)
    driver.stop(for_good=False)
    await driver.run()
    assert driver.unready() == ["allocation dra can't be served: there is no token"]
    assert not driver.can_follow
    assert any("there is no token" in str(call) for call in lines.calls)


async def test_from_plugin_to_driver_and_back(node: Node, kubelet: FakeKubelet, plugins: FakePluginKubelet) -> None:
    """Never both: the driver begins when the plugin has ended, and its slice is gone before the plugin is back."""
    plugin = node.start(PLUGIN)
    await until(lambda: plugins.healthy == 20, "the plugin is there", timeout=20)
    driver = node.start(DRA)
    await until(lambda: driver.can_follow, "the driver can follow", timeout=20)
    assert not kubelet.drivers
    assert node.cluster.slices() == []
    await node.end(plugin, for_good=True)
    await is_ready(driver)
    assert len(node.memory()) == 2
    assert plugins.healthy == 0
    following = node.start(PLUGIN)
    await until(lambda: following.can_follow, "the plugin can follow", timeout=20)
    assert plugins.healthy == 0
    await node.end(driver, for_good=True)
    assert node.cluster.slices() == []
    await until(lambda: plugins.healthy == 20, "the plugin is there again", timeout=20)
    assert not kubelet.drivers


async def test_the_setting_changes(
    node: Node, kubelet: FakeKubelet, plugins: FakePluginKubelet, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the file that counts: a plugin serves until the API lets the driver follow, and follows it in the end."""
    monkeypatch.setattr("nvshare.deviceplugin.changeover._LOOK_SECONDS", 0.05)
    file = node.root / "default.yaml"
    choice = Choice(node.root, "default", node.root / "label")
    flags = {"metrics_address": "127.0.0.1:0"}

    def made(configuration: Configuration) -> Mode:
        return node.make(configuration.allocation)

    file.write_text("allocation: plugin")
    changeover = Changeover(choose(choice, flags, {}), made, lambda: choose(choice, flags, {}), log)
    running = asyncio.create_task(changeover.run())
    await until(lambda: plugins.healthy == 20, "the plugin is there", timeout=20)
    node.cluster.refusals[SLICES] = (403, "resourceslices is forbidden")
    file.write_text("allocation: dra")
    await until(
        lambda: "the chart gives them" in str(changeover._notes()), "the plugin says what is missing", timeout=20
    )
    assert plugins.healthy == 20
    node.cluster.refusals.clear()
    await until(lambda: kubelet.drivers and len(node.memory()) == 2, "the driver is there", timeout=20)
    assert plugins.healthy == 0
    file.write_text("allocation: plugin")
    await until(lambda: plugins.healthy == 20, "the plugin is there again", timeout=20)
    assert node.cluster.slices() == []
    os.kill(os.getpid(), signal.SIGTERM)
    await running


async def test_claims_that_are_left_when_the_plugin_is_back(
    node: Node, kubelet: FakeKubelet, plugins: FakePluginKubelet
) -> None:
    """kubelet, or who removes a record, can end them, the scheduler is told until then, and no other is prepared."""
    driver = node.start(DRA)
    await is_ready(driver)
    for uid in ("by-hand", "u1"):
        assert await prepare(node, kubelet, uid) == ""
    await node.end(driver, for_good=True)
    node.scheduler.claims = []
    node.start(PLUGIN)
    await until(lambda: kubelet.drivers, "somebody sees to them", timeout=20)
    await until(lambda: len(node.scheduler.claims) == 2, "the scheduler is told", timeout=20)
    await until(lambda: (NODE, "gpu-a") in kubelet.health, "kubelet knows how its GPU is", timeout=20)
    assert "given out by the device plugin now" in await prepare(node, kubelet, "u2")
    assert await kubelet.unprepare(Claim(uid="u1", namespace="team", name="u1")) == {"u1": ""}
    (node.root / "plugins" / DRIVER / "claims" / "by-hand.json").unlink()
    await until(lambda: not kubelet.drivers, "nothing is left to see to", timeout=20)
    await until(lambda: node.scheduler.claims == [], "the scheduler is told of that, too", timeout=20)
    node.scheduler.claims.append(admin_pb2.Claim(uid="u1"))
    node.scheduler.status.devices[0].claimed.SetInParent()
    await until(lambda: node.scheduler.claims == [], "it is told again", timeout=20)
    assert node.cluster.slices() == []


async def test_claims_that_are_left_can_not_be_read(
    node: Node,
    kubelet: FakeKubelet,
    plugins: FakePluginKubelet,
    lines: CapturingLogger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a disk that fails: it says so once, however often it tries, and once that it is over."""
    driver = node.start(DRA)
    await is_ready(driver)
    assert await prepare(node, kubelet, "u1") == ""
    await node.end(driver, for_good=True)
    # What is half written is removed, and a folder can't be as a file is.
    in_the_way = node.root / "plugins" / DRIVER / "claims" / ".new"
    in_the_way.mkdir()
    lines.calls.clear()
    tries = 0
    load = Claims.load

    def counted(claims: Claims) -> None:
        nonlocal tries
        tries += 1
        load(claims)

    monkeypatch.setattr(Claims, "load", counted)
    node.start(PLUGIN)
    await until(lambda: tries > 3, "it tries", timeout=20)
    in_the_way.rmdir()
    await until(lambda: kubelet.drivers, "somebody sees to them", timeout=20)
    said = str(lines.calls)
    assert [said.count(each) for each in ("of before are seen to", "can't be read", "can be read again")] == [1, 1, 1]


@pytest.mark.parametrize("has_token", [True, False])
async def test_what_kubelet_never_ends_when_the_plugin_is_back(
    node: Node,
    kubelet: FakeKubelet,
    plugins: FakePluginKubelet,
    lines: CapturingLogger,
    monkeypatch: pytest.MonkeyPatch,
    has_token: bool,
) -> None:
    """What is gone for the API server and no container has is swept; without a token to ask by it stays, and why."""
    monkeypatch.setattr("nvshare.deviceplugin.claims.sweep._SWEEP_SECONDS", 0.05)
    driver = node.start(DRA)
    await is_ready(driver)
    for uid in ("gone", "held", "stays"):
        assert await prepare(node, kubelet, uid) == ""
    await node.end(driver, for_good=True)
    node.scheduler.status.devices[0].allocations.append(admin_pb2.Allocation(claim="team/held", shares=1))
    for uid in ("gone", "held"):
        node.cluster.delete(CLAIMS, uid)
    node.has_token = has_token
    node.start(PLUGIN)
    if has_token:
        await until(lambda: node.records == ["held", "stays"], "what is gone is swept", timeout=20)
    else:
        await until(lambda: "neither a token nor" in str(lines.calls), "it is said why it stays", timeout=20)
        assert node.records == ["gone", "held", "stays"]

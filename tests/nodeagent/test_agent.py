"""The whole agent, between a Kubernetes API, a scheduler and a device plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import CapturingLogger

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.kubernetes.account import Account
from nvshare.log import Log, LogFormat, LogLevel, LogLines
from nvshare.nodeagent.agent import Agent, DeadRunDirError
from nvshare.nodeagent.options import Options
from nvshare.paths import RunDir
from tests.kubernetes.documents import NODE, node_document, plugin_pod, pod
from tests.kubernetes.fake_api import Cluster, serving
from tests.nodeagent.conftest import PLUGIN_FIGURES, Listener, PluginPages, at_work, listening, plugin_serving
from tests.polling import until

pytestmark = pytest.mark.usefixtures("quick")

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
WAIT = 30.0


def make_agent(account: Account, run_dir: RunDir, log: Log) -> Agent:
    """One of this node."""
    options = Options(NODE, run_dir, account, "127.0.0.1:0", LogFormat.JSON, LogLevel.INFO)
    return Agent(options, log, LogLines(2))


@asynccontextmanager
async def running(agent: Agent) -> AsyncIterator[None]:
    """It works until it is ended, as by SIGTERM."""
    async with at_work(agent.run()):
        yield


def says(cluster: Cluster, status: str, reason: str, label: str | None) -> bool:
    """Whether the node's condition and label are these."""
    found = cluster.condition()
    return (found.get("status"), found.get("reason"), cluster.label()) == (status, reason, label)


async def said(cluster: Cluster, status: str, reason: str, label: str | None) -> None:
    """Waits for that."""
    await until(lambda: says(cluster, status, reason, label), f"the node is {reason}: {cluster.condition()}", WAIT)


@pytest.fixture
def agent(reached: Account, run_dir: RunDir, log: Log) -> Callable[[], Agent]:
    """Makes an agent."""
    return lambda: make_agent(reached, run_dir, log)


async def test_annotations_reach_the_scheduler(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """Those of pods that are there, that come, change, lose them or go; not those of pods that have ended."""
    listener = Listener()
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2"}))
    cluster.put(PODS, pod("ended", {"nvshare.com/weight": "2"}) | {"status": {"phase": "Succeeded"}})
    async with listening(listener, run_dir), running(agent()):
        await until(lambda: listener.told and listener.weights == {"uid-first": 2.0}, "it is told", WAIT)
        cluster.put(PODS, pod("second", {"nvshare.com/container.main.weight": "3"}))
        await until(lambda: listener.weights == {"uid-first": 2.0, "uid-second": 3.0}, "one more", WAIT)
        cluster.put(PODS, pod("first", {"nvshare.com/weight": "5"}))
        await until(lambda: listener.weights == {"uid-first": 5.0, "uid-second": 3.0}, "it changed", WAIT)
        cluster.put(PODS, pod("first"))
        await until(lambda: listener.weights == {"uid-second": 3.0}, "it was removed", WAIT)
        cluster.delete(PODS, "uid-second")
        await until(lambda: listener.weights == {}, "the pod is gone", WAIT)


async def test_what_a_claim_overrules_is_said(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """As an event, though nothing of the pod has changed when the scheduler learns of the claim."""
    listener = Listener()
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2"}))
    async with listening(listener, run_dir), running(agent()):
        await until(lambda: listener.told, "it is told", WAIT)
        assert not cluster.events
        listener.overruled.append(
            admin_pb2.Overruled(pod_uid="uid-first", container="main", field="weight", claim="default/c", counts="3")
        )
        await until(lambda: cluster.events, "there is an event", WAIT)
    [event] = cluster.events.values()
    why = "claim default/c says 3, and claims count before annotations"
    assert event["message"] == f"annotation nvshare.com/weight does not count: {why}"


async def test_a_restart_of_the_scheduler_heals(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """The next one is told without that anything changed."""
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2"}))
    first, second = Listener(), Listener()
    async with running(agent()):
        async with listening(first, run_dir):
            await until(lambda: first.told, "the first one is told", WAIT)
        async with listening(second, run_dir):
            await until(lambda: second.told and second.weights == {"uid-first": 2.0}, "the next one too", WAIT)


async def test_an_older_scheduler(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """In a rollout it may know no annotations yet. It serves, so the node is ready."""
    pages = PluginPages()
    async with running(agent()), plugin_serving(pages), listening(admin_pb2_grpc.AdminServicer(), run_dir):
        cluster.put(PODS, plugin_pod(pages.port))
        await said(cluster, "True", "Ready", "true")


async def test_the_api_may_be_away(
    cluster: Cluster, account: Account, run_dir: RunDir, log: Log, lines: CapturingLogger
) -> None:
    """What was known counts on; when it is back, on the same address, what changed meanwhile is heard."""

    def complaints() -> int:
        warned = [call.kwargs["event"] for call in lines.calls if call.method_name == "warning"]
        return warned.count("the API can't be followed: what is known counts")

    listener = Listener()
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2"}))
    with serving(cluster, account.folder) as reached:
        port = reached.port
        agent = make_agent(reached, run_dir, log)
        stack = listening(listener, run_dir)
        await stack.__aenter__()
        task = asyncio.create_task(agent.run())
        await until(lambda: listener.told and listener.weights == {"uid-first": 2.0}, "it is told", WAIT)
    try:
        told = len(listener.told)
        await until(lambda: len(listener.told) > told + 5, "it is told on and on", WAIT)
        assert listener.weights == {"uid-first": 2.0}
        await until(lambda: complaints() == 2, "both lists are missed", WAIT)
        cluster.put(PODS, pod("first", {"nvshare.com/weight": "7"}))
        cluster.delete(NODES, "uid-node")
        cluster.put(NODES, node_document())
        with serving(cluster, account.folder, port):
            await until(lambda: listener.weights == {"uid-first": 7.0}, "the API is back", WAIT)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    finally:
        task.cancel()
        await stack.__aexit__(None, None, None)
    assert complaints() == 2


async def test_before_the_pods_are_known_nothing_is_taken_away(
    cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir
) -> None:
    """An agent that starts while the API is away does not tell that there are no annotations."""
    listener = Listener()
    cluster.refusals["GET /api/v1/pods"] = (503, "not now")
    async with listening(listener, run_dir), running(agent()):
        await until(lambda: len(cluster.asked) > 10, "it asks again and again", WAIT)
        assert listener.told == []
        cluster.refusals.clear()
        await until(lambda: listener.told == [{}] * len(listener.told) != [], "now it knows", WAIT)


async def test_garbage_is_survived(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """From lists and from watches: what was known counts until there is sense again."""
    listener = Listener()
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2"}))
    nonsense = (
        {"type": "ADDED", "object": {}},
        {"type": "NEWS", "object": {}},
        {"x": 1},
        {"type": "ADDED", "object": 7},
    )
    async with listening(listener, run_dir), running(agent()):
        await until(lambda: listener.told and listener.weights == {"uid-first": 2.0}, "it is told", WAIT)
        for number, event in enumerate(nonsense):
            asked = len(cluster.asked)
            cluster.tell(PODS, event)
            await until(lambda asked=asked: len(cluster.asked) > asked, "it lists anew", WAIT)
            cluster.put(PODS, pod("first", {"nvshare.com/weight": str(3 + number)}))
            await until(lambda n=number: listener.weights == {"uid-first": 3.0 + n}, "it is told", WAIT)
        for garbage in (b"<html>", b"[]", b"{}", b'{"items": 3, "metadata": {}}', b'{"items": [{}]}', b"\xff"):
            cluster.garbage = garbage
            asked = len(cluster.asked)
            cluster.end_watches()
            await until(lambda asked=asked: len(cluster.asked) > asked + 3, "it asks again", WAIT)
            assert listener.weights == {"uid-first": 6.0}
        cluster.garbage = b""
        cluster.put(PODS, pod("first", {"nvshare.com/weight": "9"}))
        await until(lambda: listener.weights == {"uid-first": 9.0}, "there is sense again", WAIT)


async def test_condition_and_label(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """They follow scheduler and plugin, and say why; nothing is written while nothing changes."""
    pages = PluginPages()
    async with running(agent()), plugin_serving(pages):
        await said(cluster, "False", "SchedulerAway", "false")
        async with listening(Listener(), run_dir):
            await said(cluster, "False", "PluginAway", "false")
            cluster.put(PODS, plugin_pod(pages.port))
            await said(cluster, "True", "Ready", "true")
            assert cluster.condition()["message"] == "2 GPUs, 20 virtual devices"
            writes, asked = len(cluster.written), len(cluster.asked)
            pages.unready = ["not registered with kubelet: waiting"]
            await said(cluster, "False", "PluginNotReady", "false")
            assert cluster.condition()["message"] == "not registered with kubelet: waiting"
            pages.unready, pages.notes = [], ["GPU-a: lost"]
            pages.figures = PLUGIN_FIGURES.format(ok=1, error=0, a=0, b=1)
            await said(cluster, "True", "Ready", "true")
            assert cluster.condition()["message"] == "1 GPU, 10 virtual devices; GPU-a: lost"
            pages.figures = PLUGIN_FIGURES.format(ok=1, error=0, a=0, b=0)
            await said(cluster, "False", "GPUsUnhealthy", "false")
            pages.figures = PLUGIN_FIGURES.format(ok=0, error=1, a=0, b=0)
            await said(cluster, "False", "NVMLBroken", "false")
            pages.figures = "nvshare_plugin_problem 0\n"
            await said(cluster, "False", "NoGPU", "false")
            assert len(cluster.written) - writes <= 12
            assert len(cluster.asked) - asked <= 14


async def test_what_others_change_is_put_right(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """Somebody removes the label, or writes another condition."""
    pages = PluginPages()
    async with running(agent()), plugin_serving(pages), listening(Listener(), run_dir):
        cluster.put(PODS, plugin_pod(pages.port))
        await said(cluster, "True", "Ready", "true")
        cluster.patch_node("metadata", {"metadata": {"labels": {"nvshare.com/Ready": None}}})
        await said(cluster, "True", "Ready", "true")
        other = {"type": "nvshare.com/Ready", "status": "False", "reason": "Mine"}
        cluster.patch_node("status", {"status": {"conditions": [other]}})
        await said(cluster, "True", "Ready", "true")
        kinds = {each["type"] for each in cluster.node()["status"]["conditions"]}
        assert kinds == {"Ready", "nvshare.com/Ready"}


async def test_its_end(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """Nobody looks after the node then: it has neither condition nor label. What was told counts on."""
    listener, pages = Listener(), PluginPages()
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2"}))
    cluster.put(NODES, node_document(**{"nvshare.com/device-plugin.config": "small"}))
    async with plugin_serving(pages), listening(listener, run_dir):
        async with running(agent()):
            cluster.put(PODS, plugin_pod(pages.port))
            await said(cluster, "True", "Ready", "true")
        assert (cluster.condition(), cluster.label()) == ({}, None)
        assert listener.weights == {"uid-first": 2.0}
        assert run_dir.node_config.read_text() == "small\n"


async def test_settings_by_label(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """The file follows the node's label, is made again where it was removed, and is not there without a label."""
    key = "nvshare.com/device-plugin.config"
    file = run_dir.node_config

    def text() -> str:
        return file.read_text() if file.exists() else ""

    async with running(agent()):
        for value in ("big", "small.v2"):
            cluster.put(NODES, node_document(**{key: value}))
            await until(lambda value=value: text() == f"{value}\n", value, WAIT)
        file.unlink()
        file.parent.rmdir()
        await until(lambda: text() == "small.v2\n", "it is there again", WAIT)
        cluster.put(NODES, node_document(**{key: "../../etc"}))
        cluster.put(NODES, node_document())
        await until(lambda: not file.exists(), "there is no label", WAIT)


async def test_wrong_annotations_are_said(cluster: Cluster, agent: Callable[[], Agent], run_dir: RunDir) -> None:
    """Once each, on the pod; the right ones beside them count."""
    listener = Listener()
    wrong = {"nvshare.com/weight": "heavy", "nvshare.com/container.main.weight": "2", "nvshare.com/colour": "red"}
    cluster.put(PODS, pod("first", wrong))
    async with listening(listener, run_dir), running(agent()):
        await until(lambda: len(cluster.events) == 2, "both are said", WAIT)
        await until(lambda: listener.told and listener.weights == {"uid-first": 2.0}, "the other counts", WAIT)
        cluster.end_watches()
        cluster.put(PODS, pod("first", {**wrong, "nvshare.com/priority": "high"}))
        await until(lambda: listener.told[-1]["uid-first", "main"].priority == "high", "the next is seen", WAIT)
    assert sum("POST" in line for line in cluster.asked) == 2
    event = next(each for each in cluster.events.values() if "heavy" in each["message"])
    assert (event["type"], event["reason"]) == ("Warning", "InvalidAnnotation")
    assert event["involvedObject"]["uid"] == "uid-first"
    said = "annotation nvshare.com/weight does not count: 'heavy' is no weight; a number from 0.01 to 1000 is"
    assert event["message"] == said


async def test_a_dead_run_directory(
    cluster: Cluster, reached: Account, run_dir: RunDir, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a new container sees the one that takes its place."""
    dead: list[Path] = []
    monkeypatch.setattr("nvshare.nodeagent.agent.is_dead", lambda folder: folder in dead)
    task = asyncio.create_task(make_agent(reached, run_dir, log).run())
    await until(lambda: any("watch" in line for line in cluster.asked), "it works", WAIT)
    dead.append(run_dir.root)
    with pytest.raises(DeadRunDirError, match="was removed on the node"):
        await task

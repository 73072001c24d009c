"""What is written to the node's object, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiServer
from nvshare.log import Log
from nvshare.nodeagent.node import NodeReport, node_of
from nvshare.nodeagent.readiness import Reason, Verdict
from tests.kubernetes.documents import NODE, node_document
from tests.kubernetes.fake_api import Cluster
from tests.polling import until

READY = Verdict(True, Reason.READY, "2 GPUs")
AWAY = Verdict(False, Reason.SCHEDULER_AWAY, "away")


@pytest.fixture
def report(reached: Account, log: Log) -> NodeReport:
    """Of the cluster's node."""
    return NodeReport(ApiServer(reached, lambda _: None), NODE, log, lambda: None)


def parts(cluster: Cluster) -> list[str]:
    """What was written."""
    return [part for part, _ in cluster.written]


async def test_nothing_is_written_while_nothing_changes(cluster: Cluster, report: NodeReport) -> None:
    """But a heartbeat every five minutes. While the watch lags behind, nothing is written twice either."""
    before = node_of(cluster.node())
    await report.bring_up_to_date(before, READY, 1000.0)
    assert parts(cluster) == ["status", "metadata"]
    await report.bring_up_to_date(before, READY, 1001.0)
    for now in (1002.0, 1299.0):
        await report.bring_up_to_date(node_of(cluster.node()), READY, now)
    assert parts(cluster) == ["status", "metadata"]
    await report.bring_up_to_date(node_of(cluster.node()), READY, 1301.0)
    assert parts(cluster) == ["status", "metadata", "status"]


async def test_what_others_take_away(cluster: Cluster, report: NodeReport) -> None:
    """A node that was deleted and registered anew has nothing, as before the first write: it is written again."""
    new = cluster.node()
    await report.bring_up_to_date(node_of(new), READY, 1000.0)
    await report.bring_up_to_date(node_of(cluster.node()), READY, 1001.0)
    cluster.put("/api/v1/nodes", new)
    assert (cluster.condition(), cluster.label()) == ({}, None)
    await report.bring_up_to_date(node_of(cluster.node()), READY, 1002.0)
    assert (cluster.condition()["status"], cluster.label()) == ("True", "true")


async def test_the_last_word(cluster: Cluster, report: NodeReport) -> None:
    """It comes after a write that was given up half-way, and nothing stays because the watch lags behind."""
    before = node_of(cluster.node())
    with cluster.changed:
        given_up = asyncio.create_task(report.bring_up_to_date(before, READY, 1000.0))
        await until(lambda: "PATCH" in "".join(cluster.asked), "it writes", 30.0)
        given_up.cancel()
        last = asyncio.create_task(report.remove())
        await asyncio.wait({given_up})
    await last
    assert (cluster.condition(), cluster.label()) == ({}, None)
    assert parts(cluster) == ["status", "metadata"] * 2


async def test_times(cluster: Cluster, report: NodeReport) -> None:
    """The time of the last change is that of the status; another reason or a heartbeat is none."""
    await report.bring_up_to_date(node_of(cluster.node()), AWAY, 0.0)
    cluster.node()["status"]["conditions"][-1]["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    other = Verdict(False, Reason.NO_GPU, "none")
    await report.bring_up_to_date(node_of(cluster.node()), other, 1.0)
    assert cluster.condition()["reason"] == "NoGPU"
    assert cluster.condition()["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert cluster.condition()["lastHeartbeatTime"] > "2026-01-02T03:04:05Z"
    await report.bring_up_to_date(node_of(cluster.node()), READY, 2.0)
    assert cluster.condition()["lastTransitionTime"] > "2026-01-02T03:04:05Z"


async def test_refused(cluster: Cluster, report: NodeReport, lines: CapturingLogger) -> None:
    """It is tried again after a while, and said once."""
    cluster.refusals["PATCH"] = (403, "nodes is forbidden")
    for now in (0.0, 1.0, 9.0, 11.0):
        await report.bring_up_to_date(node_of(cluster.node()), READY, now)
    assert len(cluster.asked) == 2
    cluster.refusals.clear()
    await report.bring_up_to_date(node_of(cluster.node()), READY, 30.0)
    assert (cluster.condition()["status"], cluster.label()) == ("True", "true")
    warned = [call.kwargs["reason"] for call in lines.calls if call.method_name == "warning"]
    assert warned == ["the API server refuses (403): nodes is forbidden"]


@pytest.mark.parametrize("config", ["../etc", "a/b", "-a", "a b", "x" * 64, "ä", "a\n"])
def test_no_label_of_the_api(config: str) -> None:
    """What the API server would never say is not written to a file either."""
    with pytest.raises(ValueError):  # noqa: PT011
        node_of(node_document(**{"nvshare.com/device-plugin.config": config}))


@pytest.mark.parametrize("document", [{}, {"metadata": 3}, {"metadata": {}, "status": {"conditions": [{}]}}])
def test_no_node(document: dict[str, Any]) -> None:
    """It is told apart."""
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        node_of(document)

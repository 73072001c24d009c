"""The node's slice is in the API as it is to be, whatever happens there, and is written for changes only."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import CapturingLogger

from nvshare.deviceplugin.claims.capacity import Capacity
from nvshare.deviceplugin.claims.publisher import Publisher
from nvshare.deviceplugin.claims.slices import Document, Offered, devices
from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiServer
from nvshare.log import Log
from tests.deviceplugin.claims.api_rules import mistakes
from tests.kubernetes.conftest import at_work
from tests.kubernetes.documents import NODE
from tests.kubernetes.fake_api import SLICES, Cluster, serving
from tests.polling import until

pytestmark = pytest.mark.usefixtures("quick_mirror")
GIB = 1 << 30


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_SHORTEST_PAUSE", 0.02), ("_LONGEST_PAUSE", 0.1), ("_UNFIT_PAUSE", 0.2)):
        monkeypatch.setattr(f"nvshare.deviceplugin.claims.publisher.{name}", seconds)


class Written(Counter[str]):
    def __call__(self, result: str) -> None:
        self[result] += 1


def gpus(*sizes: int, problem: str | None = None) -> list[Document]:
    made = [Capacity(size * GIB, size * GIB, GIB, 8, size * GIB) for size in sizes]
    return devices([Offered(f"GPU-{at}", each, {}, problem) for at, each in enumerate(made)])


def publisher(account: Account, log: Log, written: Written) -> Publisher:
    return Publisher(ApiServer(account, lambda _problem: None), NODE, log, written)


@asynccontextmanager
async def published(account: Account, log: Log, listed: list[Document]) -> AsyncIterator[tuple[Publisher, Written]]:
    """One that has been written."""
    written = Written()
    made = publisher(account, log, written)
    made.offer(listed)
    async with at_work(made.run()):
        await until(lambda: made.published, "the slice is there")
        yield made, written


def memory(cluster: Cluster) -> list[str]:
    """What the slice says of each GPU; nothing without a slice."""
    return [each["capacity"]["memory"]["value"] for one in cluster.slices() for each in one["spec"]["devices"]]


async def test_made_and_changed(reached: Account, cluster: Cluster, log: Log) -> None:
    """It goes with the node, and its generation goes up with each change."""
    async with published(reached, log, gpus(8)) as (made, written):
        one = cluster.slice()
        assert mistakes(one) == []
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", NODE, "uid-node")
        assert one["spec"]["pool"]["generation"] == 1
        made.offer(gpus(6, 4))
        await until(lambda: memory(cluster) == ["6Gi", "4Gi"], "the change is there")
        assert cluster.slice()["spec"]["pool"]["generation"] == 2
        await until(lambda: written == {"created": 1, "updated": 1}, "both are counted")


async def test_nothing_is_written_that_changes_nothing(reached: Account, cluster: Cluster, log: Log) -> None:
    """Not by the same again, nor by watches that end, nor by an instance that takes it over."""
    async with published(reached, log, gpus(8, problem="lost")) as (made, written):
        for _ in range(3):
            made.offer(gpus(8, problem="lost"))
            await until(lambda: cluster.watches == 1, "a watch is on")
            asked = len(cluster.asked)
            cluster.end_watches()
            await until(lambda asked=asked: any("watch=1" in line for line in cluster.asked[asked:]), "it watches")
        assert written == {"created": 1}
    async with published(reached, log, gpus(8, problem="lost")) as (_made, second):
        assert second == {}
        assert cluster.slice()["spec"]["pool"]["generation"] == 1


async def test_deleted_by_kubelet(reached: Account, cluster: Cluster, log: Log) -> None:
    """It is made again at once, as a newer generation."""
    async with published(reached, log, gpus(8)):
        for generation in (2, 3):
            cluster.delete(SLICES, cluster.slice()["metadata"]["uid"])
            await until(cluster.slices, "it is there again")
            assert cluster.slice()["spec"]["pool"]["generation"] == generation


async def test_node_registered_anew(reached: Account, cluster: Cluster, log: Log) -> None:
    """The slice went with the node that was deleted. That of the new one is its own, or it would be deleted, too."""
    nodes = "/api/v1/nodes"
    async with published(reached, log, gpus(8)) as (made, _written):
        (node,) = cluster.objects[nodes].values()
        cluster.delete(nodes, node["metadata"]["uid"])
        cluster.delete(SLICES, cluster.slice()["metadata"]["uid"])
        await until(lambda: "there is no node 'worker-1'" in (made.problem or ""), "it is said")
        assert cluster.slices() == []
        cluster.put(nodes, {**node, "metadata": {**node["metadata"], "uid": "uid-anew"}})
        await until(cluster.slices, "it is there again")
        assert [owner["uid"] for owner in cluster.slice()["metadata"]["ownerReferences"]] == ["uid-anew"]
        await until(lambda: made.problem is None, "all is well")


async def test_changed_by_somebody_else(reached: Account, cluster: Cluster, log: Log) -> None:
    """It is as it was to be again."""
    async with published(reached, log, gpus(8)):
        other = {**cluster.slice(), "spec": {**cluster.slice()["spec"], "devices": []}}
        cluster.put(SLICES, other)
        await until(lambda: memory(cluster) == ["8Gi"], "it is right again")


async def test_a_conflict(reached: Account, cluster: Cluster, log: Log) -> None:
    """What was written in between is written over; a conflict is no problem."""
    async with published(reached, log, gpus(8)) as (made, written):
        cluster.refusals["PUT"] = (409, "the object has been modified")
        made.offer(gpus(6))
        await until(lambda: written["conflict"] >= 2, "it was refused")
        assert made.problem is None
        cluster.refusals.clear()
        await until(lambda: memory(cluster) == ["6Gi"], "it is written")


async def test_two_write(reached: Account, cluster: Cluster, log: Log) -> None:
    """Even then there is one slice, and it is one of theirs."""
    written = Written()
    both = [publisher(reached, log, written) for _ in range(2)]
    for each in both:
        each.offer(gpus(8))
    async with at_work(*(each.run() for each in both)):
        await until(lambda: all(each.published for each in both), "both found it")
        assert memory(cluster) == ["8Gi"]
        assert written["created"] == 1


async def test_no_rights(reached: Account, cluster: Cluster, log: Log, lines: CapturingLogger) -> None:
    """It says which rights are missing, once in the log, and goes on when they are there."""
    cluster.refusals["POST"] = (403, "resourceslices is forbidden")
    made = publisher(reached, log, Written())
    made.offer(gpus(8))
    async with at_work(made.run()):
        await until(lambda: made.problem, "it is refused")
        assert "resourceslices is forbidden" in str(made.problem)
        assert "the chart gives them where allocation is dra" in str(made.problem)
        await until(lambda: sum("POST" in line for line in cluster.asked) >= 3, "it is tried again")
        assert sum("can't be written" in str(call) for call in lines.calls) == 1
        cluster.refusals.clear()
        await until(lambda: made.published, "it is written")
        assert made.problem is None


async def test_no_right_to_watch(reached: Account, cluster: Cluster, log: Log) -> None:
    """As well."""
    cluster.refusals[f"GET {SLICES}?"] = (403, "resourceslices is forbidden")
    made = publisher(reached, log, Written())
    made.offer(gpus(8))
    async with at_work(made.run()):
        await until(lambda: made.problem, "it is refused")
        assert "the chart gives them" in str(made.problem)


async def test_an_old_cluster(reached: Account, cluster: Cluster, log: Log) -> None:
    """There is no such API."""
    cluster.refusals["resourceslices"] = (404, "the server could not find the requested resource")
    made = publisher(reached, log, Written())
    made.offer(gpus(8))
    async with at_work(made.run()):
        await until(lambda: "needs Kubernetes 1.34" in (made.problem or ""), "it is said")


async def test_a_cluster_without_consumable_capacity(reached: Account, cluster: Cluster, log: Log) -> None:
    """A GPU that one claim would have alone is not offered at all."""
    cluster.unknown_fields = {"allowMultipleAllocations"}
    made = publisher(reached, log, Written())
    made.offer(gpus(8))
    async with at_work(made.run()):
        await until(lambda: "DRAConsumableCapacity" in (made.problem or ""), "it is said")
        assert cluster.slices() == []
        assert not made.published
        cluster.unknown_fields = set()
        await until(lambda: made.published, "it is written")
        assert made.problem is None


async def test_a_cluster_without_taints(reached: Account, cluster: Cluster, log: Log) -> None:
    """It is noted, and written once."""
    cluster.unknown_fields = {"taints"}
    async with published(reached, log, gpus(8, problem="lost")) as (made, written):
        assert "DRADeviceTaints" in (made.note or "")
        made.offer(gpus(6))
        await until(lambda: memory(cluster) == ["6Gi"], "the change is there")
        await until(lambda: made.note is None, "it is well")
        assert written == {"created": 1, "updated": 1}


async def test_the_api_is_away(account: Account, cluster: Cluster, log: Log) -> None:
    """What was offered meanwhile is written when it is back."""
    with serving(cluster, account.folder) as found:
        written = Written()
        made = publisher(found, log, written)
        made.offer(gpus(8))
        async with at_work(made.run()):
            await until(lambda: made.published, "the slice is there")
            cluster.answers.clear()
            cluster.end_watches()
            made.offer(gpus(6))
            await until(lambda: "GET" in cluster.asked[-1], "it asks")
            assert memory(cluster) == ["8Gi"]
            cluster.answers.set()
            await until(lambda: memory(cluster) == ["6Gi"], "the change is there")


async def test_withdrawn(reached: Account, cluster: Cluster, log: Log) -> None:
    """When the node is the device plugin's from now on."""
    async with published(reached, log, gpus(8)) as (made, _written):
        pass
    assert memory(cluster) == ["8Gi"]
    await made.withdraw()
    assert cluster.slices() == []
    await made.withdraw()


async def test_withdrawn_without_an_api(account: Account, log: Log, lines: CapturingLogger) -> None:
    """That is said, and no reason to wait."""
    async with asyncio.timeout(10):
        await publisher(account, log, Written()).withdraw()
    assert any("stays until kubelet deletes it" in str(call) for call in lines.calls)


async def test_an_unknown_node(account: Account, log: Log) -> None:
    """It is said whose setting that is."""
    nowhere = Cluster()
    with serving(nowhere, account.folder) as found:
        made = publisher(found, log, Written())
        made.offer(gpus(8))
        async with at_work(made.run()):
            await until(lambda: "--node-name must be" in (made.problem or ""), "it is said")

"""Events about wrong annotations: each once, and never too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from nvshare.admin import admin_pb2
from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiServer
from nvshare.log import Log
from nvshare.nodeagent.complaints import Complaints
from nvshare.nodeagent.pods import Pod, reader
from tests.kubernetes.documents import NODE, pod
from tests.kubernetes.fake_api import Cluster
from tests.nodeagent.conftest import at_work
from tests.polling import until

pytestmark = pytest.mark.usefixtures("quick")

WAIT = 30.0


class Said:
    """The complaints of one agent, and what became of them."""

    def __init__(self, account: Account, log: Log) -> None:
        self.results: Counter[str] = Counter()
        api = ApiServer(account, lambda _: None)
        self.complaints = Complaints(api, NODE, log, lambda result: self.results.update([result]))

    def sees(self, *weights: str, name: str = "a") -> None:
        """The node has a pod for each of these weights."""
        pods = (pod(f"{name}{number}", {"nvshare.com/weight": text}) for number, text in enumerate(weights))
        self.complaints.see_to([_read(each) for each in pods])


def _read(document: dict[str, object]) -> Pod:
    return reader("nvshare-system")(document)


@pytest.fixture
def said(reached: Account, log: Log) -> Said:
    """One agent's."""
    return Said(reached, log)


def messages(cluster: Cluster) -> Iterable[str]:
    """Of all events."""
    return [event["message"] for event in list(cluster.events.values())]


async def test_once(cluster: Cluster, said: Said) -> None:
    """However often the pod is seen; put right and wrong again, it is news, in the same event."""
    async with at_work(said.complaints.run()):
        said.sees("heavy")
        await until(lambda: said.results["told"] == 1, "it is told", WAIT)
        said.sees("heavy", "fat")
        await until(lambda: said.results["told"] == 2, "the other is told", WAIT)
        assert cluster.written == []
        said.sees("1", "fat")
        assert said.complaints.present == 1
        said.sees("heavy", "fat")
        assert said.complaints.present == 2
        await until(lambda: said.results["told"] == 3, "it is told again", WAIT)
    assert len(cluster.events) == 2
    assert [part for part, _ in cluster.written] == ["event"]


async def test_the_next_agent(cluster: Cluster, said: Said, reached: Account, log: Log) -> None:
    """It renews the event, and makes none of its own."""
    async with at_work(said.complaints.run()):
        said.sees("heavy")
        await until(lambda: said.results["told"] == 1, "it is told", WAIT)
    following = Said(reached, log)
    async with at_work(following.complaints.run()):
        following.sees("heavy")
        await until(lambda: following.results["told"] == 1, "it is told", WAIT)
    assert len(cluster.events) == 1


@pytest.mark.parametrize("refusal", [(503, "not now"), (429, "too many requests")])
async def test_the_api_is_away(cluster: Cluster, said: Said, refusal: tuple[int, str]) -> None:
    """Or has too much to do: what could not be told is told later; what was put right meanwhile is not."""
    cluster.refusals["POST"] = refusal
    async with at_work(said.complaints.run()):
        said.sees("heavy", "fat")
        await until(lambda: len(cluster.asked) > 3, "it tries", WAIT)
        said.sees("1", "fat")
        cluster.refusals.clear()
        await until(lambda: said.results["told"] == 1, "it is told", WAIT)
    assert ["'fat'" in message for message in messages(cluster)] == [True]


async def test_failing_for_one_namespace(cluster: Cluster, said: Said) -> None:
    """As by a webhook of its own that is away: the others' are told meanwhile, and its own later."""
    cluster.refusals["namespaces/broken/events"] = (500, "failed calling webhook")
    broken, other = (pod(name, {"nvshare.com/weight": "heavy"}) for name in ("first", "other"))
    broken["metadata"]["namespace"] = "broken"
    async with at_work(said.complaints.run()):
        said.complaints.see_to([_read(broken), _read(other)])
        await until(lambda: said.results["told"] == 1, "the other is told", WAIT)
        cluster.refusals.clear()
        await until(lambda: said.results["told"] == 2, "its own is told, too", WAIT)


async def test_refused(cluster: Cluster, said: Said) -> None:
    """As in a namespace that is about to go: it is counted, and the next one is told."""
    async with at_work(said.complaints.run()):
        cluster.refusals["POST"] = (403, "because it is being terminated")
        said.sees("heavy")
        await until(lambda: said.results["refused"] == 1, "it is refused", WAIT)
        cluster.refusals.clear()
        said.sees("fat")
        await until(lambda: said.results["told"] == 1, "the other is told", WAIT)
    assert len(cluster.events) == 1


async def test_whoever_changes_a_pod_again_and_again(cluster: Cluster, said: Said) -> None:
    """Its events come to an end; another pod's are told."""
    async with at_work(said.complaints.run()):
        for number in range(25):
            restless = _read(pod("restless", {"nvshare.com/weight": f"heavy{number}"}))
            said.complaints.see_to(
                [restless, _read(pod("other", {"nvshare.com/weight": f"fat{number}"}, f"o{number}"))]
            )
            await until(lambda n=number: any(f"'fat{n}'" in each for each in messages(cluster)), "the other's", WAIT)
    assert sum("'heavy" in message for message in messages(cluster)) == 20


@pytest.mark.parametrize("name", ["a", "a" * 253, "a" * 199 + ".b", "a.b-c"])
async def test_names(cluster: Cluster, said: Said, name: str) -> None:
    """An event's name is one that the API takes."""
    async with at_work(said.complaints.run()):
        said.complaints.see_to([_read(pod(name, {"nvshare.com/weight": "heavy"}))])
        await until(lambda: said.results["told"] == 1, "it is told", WAIT)
    (event,) = cluster.events
    assert len(event) <= 253
    assert all(part.strip("-") == part != "" for part in event.split("."))


def overruled(container: str, field: str = "weight", counts: str = "3") -> admin_pb2.Overruled:
    """The scheduler's word on the pod."""
    return admin_pb2.Overruled(pod_uid="uid-a", container=container, field=field, claim="default/c", counts=counts)


async def test_what_a_claim_overrules(cluster: Cluster, said: Said) -> None:
    """Once for the annotation, however many containers it is for, and however often it is told."""
    pods = [_read(pod("a", {"nvshare.com/weight": "2", "nvidia.com/container.main.gpu-memory.limit": "4Gi"}))]
    word = [overruled("main"), overruled("side"), overruled(""), overruled("main", "memory_limit_bytes", "2.0 GiB")]
    # Of what is no longer there: a pod, an annotation.
    gone = [admin_pb2.Overruled(pod_uid="uid-b", field="weight"), overruled("main", "sleep")]
    async with at_work(said.complaints.run()):
        said.complaints.see_to(pods, [*word, *gone])
        await until(lambda: said.results["told"] == 2, "both are told", WAIT)
        said.complaints.see_to(pods, word)
        assert said.complaints.present == 2
    why = "and claims count before annotations"
    assert sorted(messages(cluster)) == [
        f"annotation nvidia.com/container.main.gpu-memory.limit does not count: claim default/c says 2.0 GiB, {why}",
        f"annotation nvshare.com/weight does not count: claim default/c says 3, {why}",
    ]
    assert {event["reason"] for event in cluster.events.values()} == {"InvalidAnnotation"}
    assert said.results["told"] == 2

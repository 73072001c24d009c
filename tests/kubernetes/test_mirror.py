"""Objects of the API are followed through everything that a watch can come to."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import CapturingLogger

from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiError, ApiServer, Document
from nvshare.kubernetes.mirror import Mirror
from nvshare.log import Log
from tests.kubernetes.conftest import at_work
from tests.kubernetes.documents import NODE, pod
from tests.kubernetes.fake_api import Cluster, make_account
from tests.polling import until

pytestmark = pytest.mark.usefixtures("quick_mirror")

PODS = "/api/v1/pods"
WAIT = 30.0


def name_of(document: Document) -> str:
    """All that these tests read."""
    return str(document["metadata"]["name"])


class Seen:
    """A mirror, and what it told."""

    def __init__(self, account: Account, log: Log) -> None:
        self.heard: list[str] = []
        self.changes: list[set[str]] = []
        api = ApiServer(account, self.heard.append)
        self.mirror = Mirror[str](api, PODS, f"spec.nodeName={NODE}", name_of, self.changed, log)

    def changed(self) -> None:
        """Something changed."""
        self.changes.append(self.names)

    @property
    def names(self) -> set[str]:
        """What there is."""
        return set((self.mirror.objects or {}).values())


@pytest.fixture
def seen(reached: Account, log: Log) -> Seen:
    """One of the cluster's pods."""
    return Seen(reached, log)


def lists(cluster: Cluster) -> int:
    """How often the pods were listed."""
    return sum("watch=1" not in line for line in cluster.asked)


async def test_list_and_watch(cluster: Cluster, seen: Seen) -> None:
    """One list, then every change by the watch; what is not new is not told."""
    cluster.put(PODS, pod("a"))
    assert seen.mirror.objects is None
    async with at_work(seen.mirror.run()):
        await until(lambda: seen.names == {"a"}, "the list", WAIT)
        cluster.put(PODS, pod("b"))
        cluster.put(PODS, pod("b"))
        cluster.delete(PODS, "uid-a")
        await until(lambda: seen.names == {"b"}, "the watch", WAIT)
    assert seen.changes == [{"a"}, {"a", "b"}, {"b"}]
    assert lists(cluster) == 1


async def test_an_object_is_a_line(cluster: Cluster, seen: Seen) -> None:
    """Other characters that end lines are part of what it says: JSON may have them as they are."""
    async with at_work(seen.mirror.run()):
        await until(lambda: cluster.watches == 1, "it watches", WAIT)
        cluster.put(PODS, pod("a", {"example.com/text": "one\u2028two\x85three"}))
        await until(lambda: seen.names == {"a"}, "the watch", WAIT)
    assert lists(cluster) == 1


async def test_no_pods_are_known_to_be_none(cluster: Cluster, seen: Seen) -> None:
    """That differs from not knowing, and is told."""
    async with at_work(seen.mirror.run()):
        await until(lambda: seen.mirror.objects is not None, "the list", WAIT)
    assert seen.changes == [set()]


async def test_a_watch_that_ends(cluster: Cluster, seen: Seen) -> None:
    """It is taken up again where it ended: nothing is missed, nothing told twice."""
    cluster.put(PODS, pod("a"))
    async with at_work(seen.mirror.run()):
        for name in ("b", "c", "d"):
            await until(lambda: cluster.watches == 1, "it watches", WAIT)
            cluster.end_watches()
            cluster.put(PODS, pod(name))
            await until(lambda name=name: name in seen.names, name, WAIT)
    assert seen.changes == [{"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d"}]


async def test_gone(cluster: Cluster, seen: Seen) -> None:
    """What the server has forgotten is listed anew, as new as it can be; a pod that went meanwhile is gone."""
    cluster.put(PODS, pod("a"))
    async with at_work(seen.mirror.run()):
        await until(lambda: cluster.watches == 1, "it watches", WAIT)
        with cluster.changed:
            del cluster.objects[PODS]["uid-a"]
            cluster.tell(PODS, {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}})
        await until(lambda: seen.names == set(), "the new list", WAIT)
        cluster.put(PODS, pod("b"))
        await until(lambda: seen.names == {"b"}, "the new watch", WAIT)
    first, second = [line for line in cluster.asked if "watch=1" not in line]
    assert ("resourceVersion=0" in first, "resourceVersion" in second) == (True, False)


async def test_a_server_that_was_set_up_anew(cluster: Cluster, seen: Seen) -> None:
    """It knows only older versions, and refuses to list what is newer: then anything is asked for."""
    cluster.put(PODS, pod("a"))
    async with at_work(seen.mirror.run()):
        await until(lambda: cluster.watches == 1, "it watches", WAIT)
        version = cluster.version
        cluster.version = 5
        cluster.refusals[f"resourceVersion={version}"] = (504, "Too large resource version")
        cluster.put(PODS, pod("b"))
        cluster.end_watches()
        await until(lambda: seen.names == {"a", "b"}, "the new list", WAIT)


@pytest.mark.parametrize("refusal", [(401, "Unauthorized"), (403, "pods is forbidden"), (500, "etcd"), (429, "slowly")])
async def test_refusals(cluster: Cluster, seen: Seen, lines: CapturingLogger, refusal: tuple[int, str]) -> None:
    """It tries again, at growing intervals, says so once, and goes on when it may."""
    cluster.put(PODS, pod("a"))
    cluster.refusals["/pods"] = refusal
    async with at_work(seen.mirror.run()):
        await until(lambda: len(cluster.asked) > 4, "it tries", WAIT)
        assert seen.mirror.objects is None
        cluster.refusals.clear()
        await until(lambda: seen.names == {"a"}, "the list", WAIT)
        cluster.put(PODS, pod("b"))
        await until(lambda: seen.names == {"a", "b"}, "the watch", WAIT)
    events = [call.kwargs["event"] for call in lines.calls]
    assert events == ["the API can't be followed: what is known counts", "the API can be followed again"]


async def test_pauses(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    """They grow up to a longest one, and differ from node to node."""
    for name, seconds in (("_SHORTEST_PAUSE", 1.0), ("_LONGEST_PAUSE", 30.0)):
        monkeypatch.setattr(f"nvshare.kubernetes.mirror.{name}", seconds)
    pauses = [seen.mirror._pause() for _ in range(50)]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, (1, 2, 4, 8, 16, *[30] * 45), strict=True))
    assert len(set(pauses)) > 40


async def test_watches_that_end_at_once(cluster: Cluster, seen: Seen, lines: CapturingLogger) -> None:
    """A server, or what is between, that ends each watch is not asked without a pause; a good one is taken up again."""
    cluster.ends_at_once = True
    async with at_work(seen.mirror.run()):
        await until(lambda: lists(cluster) > 2, "it begins anew", WAIT)
        assert lines.calls[0].kwargs["reason"] == "a watch ended at once"
        cluster.ends_at_once = False
        await until(lambda: cluster.watches == 1, "it watches", WAIT)
        cluster.put(PODS, pod("a"))
        await until(lambda: seen.names == {"a"}, "the watch", WAIT)
    asked = [line for line in cluster.asked if "watch=1" in line]
    assert len(asked) <= lists(cluster)


async def test_a_new_token(cluster: Cluster, reached: Account, seen: Seen) -> None:
    """kubelet renews it: what is asked then has the new one."""
    file = reached.folder / "token"
    former = file.read_text()
    try:
        async with at_work(seen.mirror.run()):
            await until(lambda: cluster.watches == 1, "it watches", WAIT)
            cluster.token = "another"
            file.write_text("another")
            cluster.end_watches()
            cluster.put(PODS, pod("b"))
            await until(lambda: seen.names == {"b"}, "it is let in", WAIT)
    finally:
        file.write_text(former)


@pytest.mark.parametrize("token", [b"", b"\xff\xfe", "\u00e4".encode(), b"two\nlines", b"a\x00b"])
async def test_a_token_that_is_none(cluster: Cluster, reached: Account, tmp_path: Path, token: bytes) -> None:
    """It is an error like others, whoever finds it wrong."""
    folder = tmp_path / "account"
    shutil.copytree(reached.folder, folder)
    (folder / "token").write_bytes(token)
    with pytest.raises(ApiError):
        await ApiServer(Account(reached.host, reached.port, folder), lambda _: None).get(PODS)


async def test_a_new_authority(cluster: Cluster, reached: Account, log: Log, tmp_path: Path) -> None:
    """Its certificate is renewed where the account is mounted: what is asked then counts on the new one."""
    account = make_account(tmp_path / "account", reached.port)
    seen = Seen(account, log)
    async with at_work(seen.mirror.run()):
        await until(lambda: len(seen.heard) > 2, "it tries", WAIT)
        assert cluster.asked == []
        (account.folder / "ca.crt").write_text((reached.folder / "ca.crt").read_text())
        cluster.put(PODS, pod("a"))
        await until(lambda: seen.names == {"a"}, "it is let in", WAIT)


@pytest.mark.parametrize(
    ("content", "said"), [("", "its file is empty"), (" ", "no start line"), ("\u00e4", "its file is empty")]
)
async def test_no_authority(
    cluster: Cluster, reached: Account, log: Log, tmp_path: Path, content: str, said: str
) -> None:
    """No other one is trusted instead: nobody is asked, and it is said why."""
    account = make_account(tmp_path / "account", reached.port)
    (account.folder / "ca.crt").write_text(content)
    with pytest.raises(ApiError, match=f"no certificate of the API server's authority: .*{said}"):
        await ApiServer(account, lambda _: None).get(PODS)
    assert cluster.asked == []


async def test_another_server(cluster: Cluster, reached: Account, log: Log, tmp_path: Path) -> None:
    """One whose certificate is not of the cluster's authority, or not for its address, is told nothing."""
    other = make_account(tmp_path / "other", reached.port)
    seen = Seen(other, log)
    wrong_name = Seen(Account("localhost", reached.port, reached.folder), log)
    async with at_work(seen.mirror.run(), wrong_name.mirror.run()):
        await until(lambda: len(seen.heard) > 2 and len(wrong_name.heard) > 2, "it tries", WAIT)
    assert all("certificate" in words.lower() for words in (*seen.heard, *wrong_name.heard))
    assert cluster.asked == []


@pytest.mark.parametrize("ended", [lambda cluster: cluster.end_watches(), lambda cluster: None])
async def test_its_end(cluster: Cluster, seen: Seen, ended: Callable[[Cluster], None]) -> None:
    """No connection is left when it is cancelled."""
    async with at_work(seen.mirror.run()):
        await until(lambda: cluster.watches == 1, "it watches", WAIT)
        ended(cluster)
    cluster.put(PODS, pod("wakes the watch"))
    cluster.put(PODS, pod("which writes into a connection that is closed"))
    await until(lambda: cluster.watches == 0, "nobody watches", WAIT)
    assert len(asyncio.all_tasks()) == 1

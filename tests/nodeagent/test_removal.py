"""The end of all node agents, before their rights go."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiError, ApiServer
from nvshare.nodeagent import removal
from tests.kubernetes.fake_api import Cluster
from tests.polling import until

PATH = "/apis/apps/v1/namespaces/nvshare-system/daemonsets/nvshare-node-agent"
WAIT = 30.0
SHORT = 2.0
"""In which a busy machine answers all the same."""


@pytest.fixture
def api(reached: Account, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """The cluster's, which is looked at often."""
    monkeypatch.setattr(removal, "_LOOK_SECONDS", 0.01)
    return ApiServer(reached, lambda _: None)


async def test_the_end_is_waited_for(cluster: Cluster, api: ApiServer) -> None:
    """It is deleted once, so that it stays until its pods are gone, and looked at until then."""
    cluster.daemon_sets.add(PATH)
    ending = asyncio.create_task(removal.end(api, PATH, WAIT))
    await until(lambda: len(cluster.asked) > 3, "it is looked at again", WAIT)
    assert not ending.done()
    cluster.daemon_sets.clear()
    assert await ending
    assert cluster.asked[0] == f"DELETE {PATH}"
    assert set(cluster.asked[1:]) == {f"GET {PATH}"}
    assert cluster.deleted == [(PATH, {"propagationPolicy": "Foreground"})]


async def test_there_is_none(cluster: Cluster, api: ApiServer) -> None:
    """As where it has been switched off before: nothing is to be done."""
    assert await removal.end(api, PATH, WAIT)
    assert cluster.asked == [f"DELETE {PATH}"]


async def test_pods_that_stay(cluster: Cluster, api: ApiServer) -> None:
    """As on a node that is down: they are not waited for without end."""
    cluster.daemon_sets.add(PATH)
    assert not await removal.end(api, PATH, SHORT)


@pytest.mark.parametrize("arguments", [[], [""], ["a/b"], ["a", "b"]], ids=str)
def test_no_name(arguments: list[str]) -> None:
    """What was not set would name all DaemonSets: it is said, and nothing is asked."""
    command = [sys.executable, "-m", "nvshare.nodeagent.removal", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"nvshare-node-agent removal: {arguments} is wrong; allowed: one argument, the DaemonSet's name\n"
    )


async def test_a_refusal(cluster: Cluster, api: ApiServer) -> None:
    """It is an error at once, with the server's words."""
    cluster.refusals["DELETE"] = (403, "daemonsets is forbidden")
    with pytest.raises(ApiError, match="daemonsets is forbidden"):
        await removal.end(api, PATH, WAIT)


@pytest.mark.parametrize("status", [503, 429])
async def test_an_api_that_is_away(cluster: Cluster, api: ApiServer, status: int) -> None:
    """Or has too much to do: it is asked again, and when it stays so the reason is said."""
    cluster.daemon_sets.add(PATH)
    cluster.refusals["DELETE"] = (status, "try again")
    with pytest.raises(ApiError, match="try again"):
        await removal.end(api, PATH, SHORT)
    assert len(cluster.asked) > 1

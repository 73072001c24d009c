"""``kubectl nvshare timeline``: who had which GPU when, of all nodes or of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.ctl.showing.timeline_document import from_timeline, to_timeline
from tests.ctl.commands.test_timeline import seen
from tests.ctl.kubectl.fake_kubernetes import Cluster, Pod, serving
from tests.ctl.kubectl.plugin import plugin

PRINTED = json.dumps(from_timeline(seen()))
OLD = (
    "Usage: nvshare-ctl timeline [OPTIONS]\n╭─ Error ─────────╮\n"
    "│ Invalid value for '-o': 'json' is not one of 'bars'. │\n╰──────────╯\n"
)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """A cluster of two nodes, whose GPUs have the same UUIDs, and so have their clients' pids."""
    cluster = Cluster([Pod("scheduler-2", "node-b", PRINTED), Pod("scheduler-1", "node-a", PRINTED)])
    with serving(cluster, kubeconfig):
        yield cluster


def test_text(cluster: Cluster, kubeconfig: Path) -> None:
    """Under each node's name the bars that nvshare-ctl shows there."""
    done = plugin(kubeconfig, "timeline", "--seconds", "10")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.split("node  node-b")
    assert first.startswith("node  node-a\n")
    for section in (first, second):
        assert "GPU 0: NVIDIA H200" in section
        assert sum(line.startswith("471") and "█" in line for line in section.splitlines()) == 2
    command = ["nvshare-ctl", "timeline", "--seconds", "10", "--output", "json"]
    assert sorted(cluster.executed) == [("scheduler-1", command), ("scheduler-2", command)]


def test_page(cluster: Cluster, kubeconfig: Path) -> None:
    """One page; every chart says of which node it is."""
    page = plugin(kubeconfig, "timeline", "-o", "html").stdout
    assert page.startswith("<!doctype html>")
    for node in ("node-a", "node-b"):
        assert f"{node} GPU 0: NVIDIA H200" in page
    assert "4 clients on 4 GPUs" in page


def test_trace(cluster: Cluster, kubeconfig: Path) -> None:
    """A process for each GPU of each node: those of two nodes don't fall together."""
    events = json.loads(plugin(kubeconfig, "timeline", "-o", "perfetto").stdout)["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert len(processes) == 4
    assert sum(name.startswith("node-b GPU") for name in processes.values()) == 2
    assert {event["pid"] for event in events if event["ph"] == "X"} == {1, 3}


def test_one_node(cluster: Cluster, kubeconfig: Path) -> None:
    """Nobody else is asked; a node that has no scheduler is named, with those that have."""
    done = plugin(kubeconfig, "timeline", "--node", "node-b")
    assert "node-a" not in done.stdout
    assert [pod for pod, _ in cluster.executed] == ["scheduler-2"]
    wrong = plugin(kubeconfig, "timeline", "--node", "node-z")
    assert (wrong.returncode, wrong.stdout) == (3, "")
    assert wrong.stderr == "kubectl nvshare: no scheduler on node 'node-z'; there are some on: node-a, node-b\n"


@pytest.mark.parametrize("output", ["text", "html", "perfetto"])
def test_node_that_does_not_answer(cluster: Cluster, kubeconfig: Path, output: str) -> None:
    """The others are shown; why this one is not is said, here what an older nvshare-ctl complains of; exit code 1."""
    cluster.pods.append(Pod("s", "node-c", stderr=OLD, exit_code=2))
    done = plugin(kubeconfig, "timeline", "-o", output)
    assert done.returncode == 1
    reason = "no answer: Invalid value for '-o': 'json' is not one of 'bars'."
    assert reason in (done.stdout if output == "text" else done.stderr)
    assert "node-a" in done.stdout
    assert "Traceback" not in done.stderr


def test_there_and_back() -> None:
    """A timeline that was written as a document and read again is the same; what is unknown is left out."""
    assert to_timeline(json.loads(PRINTED)) == seen()
    assert to_timeline({**json.loads(PRINTED), "news": [1]}) == seen()

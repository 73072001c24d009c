"""``kubectl nvshare status``: all nodes of a cluster at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nvshare import paths
from nvshare.admin import admin_pb2
from nvshare.ctl.showing import status_document
from tests.ctl.admin_server import example
from tests.ctl.kubectl.fake_kubernetes import Cluster, Pod, serving, write_kubeconfig
from tests.ctl.kubectl.plugin import plugin

STATUS = status_document.from_status(example())
QUIET = status_document.from_status(admin_pb2.Status(version="0.1.9", scheduler_pid=5))
PRINTED = json.dumps(STATUS, indent=2)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """A cluster of two nodes."""
    pods = [Pod("scheduler-2", "node-b", json.dumps(QUIET)), Pod("scheduler-1", "node-a", PRINTED)]
    cluster = Cluster(pods)
    with serving(cluster, kubeconfig):
        yield cluster


def test_all_nodes(cluster: Cluster, kubeconfig: Path) -> None:
    """Each node's name and what its scheduler shows, in the order of the names."""
    done = plugin(kubeconfig, "status")
    assert (done.returncode, done.stderr) == (0, "")
    places = [
        done.stdout.index(text)
        for text in (
            "node  node-a",
            "GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a",
            "vision/detector",
            "vision/own-preload/c, 1 virtual device",
            "nvshare-scheduler 0.2.0, pid 977, up 1h 00m",
            "node  node-b",
            "no client has used one",
            "nvshare-scheduler 0.1.9",
        )
    ]
    assert places == sorted(places)
    command = ["nvshare-ctl", "status", "--output", "json"]
    assert sorted(cluster.executed) == [("scheduler-1", command), ("scheduler-2", command)]


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents(cluster: Cluster, kubeconfig: Path, output: str, load: object) -> None:
    """The nodes' own documents, unchanged, under their names."""
    assert callable(load)
    done = plugin(kubeconfig, "status", "-o", output)
    assert load(done.stdout) == {
        "nodes": [
            {"node": "node-a", "scheduler_pod": "scheduler-1", "error": None, "status": STATUS},
            {"node": "node-b", "scheduler_pod": "scheduler-2", "error": None, "status": QUIET},
        ]
    }


def test_claims_of_all_nodes(cluster: Cluster, kubeconfig: Path) -> None:
    """A line for each GPU with claims, and the sum; without claims there is no such table."""
    assert "PROMISED" not in plugin(kubeconfig, "status").stdout
    both = example()
    for device, gib in zip(both.devices, (2, 3), strict=True):
        device.claimed.promised_bytes, device.claimed.consumed_bytes = gib << 30, gib << 29
        device.claimed.resident_bytes, device.claimed.shares = 1 << 30, gib
    cluster.pods[0] = Pod("scheduler-2", "node-b", json.dumps(status_document.from_status(both)))
    lines = [line.split() for line in plugin(kubeconfig, "status").stdout.splitlines()]
    assert lines[lines.index(["NODE", "GPU", "PROMISED", "CONSUMED", "RESIDENT", "SHARES"]) + 1 :] == [
        ["node-b", "0", "2.0", "GiB", "1.0", "GiB", "1.0", "GiB", "2"],
        ["node-b", both.devices[1].uuid, "3.0", "GiB", "1.5", "GiB", "1.0", "GiB", "3"],
        ["all", "5.0", "GiB", "2.5", "GiB", "2.0", "GiB", "5"],
    ]


SILENT = (
    (Pod("s1", "node-c", phase="Pending"), "its scheduler's pod s1 is Pending"),
    (Pod("s2", "node-d", phase="Pending", waiting="ErrImagePull"), "its scheduler's pod s2 is Pending: ErrImagePull"),
    (
        Pod("s3", "node-e", waiting="CrashLoopBackOff"),
        "the scheduler in pod s3 does not run: CrashLoopBackOff; see kubectl --namespace nvshare-system logs s3",
    ),
    (Pod("s4", "node-f", stderr="nvshare-ctl: no scheduler runs\n", exit_code=3), "nvshare-ctl: no scheduler runs"),
    (Pod("s5", "node-g"), "nvshare-ctl in pod s5 said nothing"),
    (Pod("s6", "node-h", stdout="[]"), "nvshare-ctl in pod s6 said nothing"),
    (
        Pod("s7", "node-i", refusal="pods 's7' is forbidden: no exec"),
        "cannot execute nvshare-ctl in pod s7: pods 's7' is forbidden: no exec",
    ),
)
"""Pods without an answer, each on a node of its own, and what is said of it."""


def test_nodes_that_do_not_answer(cluster: Cluster, kubeconfig: Path) -> None:
    """Each is shown with the reason beside the others, and the exit code is 1."""
    cluster.pods += [pod for pod, _error in SILENT]
    done = plugin(kubeconfig, "status", "-o", "json")
    assert (done.returncode, done.stderr) == (1, "")
    nodes = json.loads(done.stdout)["nodes"]
    assert [node["status"] is None for node in nodes] == [False] * 2 + [True] * len(SILENT)
    assert [node["error"] for node in nodes[2:]] == [error for _pod, error in SILENT]
    table = plugin(kubeconfig, "status")
    assert table.returncode == 1
    assert [error for _pod, error in SILENT if f"no answer: {error}" not in table.stdout] == []
    assert "nvshare-scheduler 0.2.0" in table.stdout


def test_pod_that_is_being_replaced(cluster: Cluster, kubeconfig: Path) -> None:
    """A pod that leaves is asked only while its node has no other."""
    cluster.pods = [
        Pod("old-a", "node-a", leaving=True, stderr="gone"),
        Pod("new-a", "node-a", PRINTED),
        Pod("old-b", "node-b", PRINTED, leaving=True),
    ]
    done = plugin(kubeconfig, "status", "-o", "json")
    assert done.returncode == 0
    assert [node["scheduler_pod"] for node in json.loads(done.stdout)["nodes"]] == ["new-a", "old-b"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-n", "elsewhere"], 3, "no scheduler in namespace elsewhere (no pod with the label app.kubernetes.io/name="),
        (["--context", "other"], 1, "no cluster to ask: "),
        (["--kubeconfig", "/nonexistent/file"], 1, "no cluster to ask: there is no file /nonexistent/file; "),
        (["--kubeconfig", "/dev/null"], 1, "no cluster to ask: /dev/null: "),
        (["--context", "nowhere"], 1, "cannot list the schedulers' pods in nvshare-system: "),
    ],
)
def test_no_answer_at_all(cluster: Cluster, kubeconfig: Path, options: list[str], code: int, message: str) -> None:
    """One line that says what is missing, and an exit code that tells no scheduler from no cluster."""
    done = plugin(kubeconfig, "status", *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"kubectl nvshare: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "-n", ""],
        ["status", "--context", ""],
        ["top", "--namespace", "a b"],
        ["timeline", "--node", ""],
        ["timeline", "--node", "a/b"],
    ],
    ids=" ".join,
)
def test_names_that_are_none(cluster: Cluster, kubeconfig: Path, arguments: list[str]) -> None:
    """A variable that was not set would ask for other pods, or for all: the command line is wrong, and nobody asked."""
    done = plugin(kubeconfig, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{arguments[-1]!r} is wrong; allowed: the name of a" in " ".join(done.stderr.split())
    assert cluster.executed == []


@pytest.mark.parametrize("text", ["a: [", "[]", "[" * 100_000, "contexts: 3\ncurrent-context: c"], ids=len)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    """It is named."""
    file = tmp_path / "config"
    file.write_text(text)
    done = plugin(file, "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"kubectl nvshare: no cluster to ask: {file} is no kubeconfig; name another with --kubeconfig\n"
    )


def test_right_that_is_missing(cluster: Cluster, kubeconfig: Path) -> None:
    """The API server's own words."""
    cluster.refusal = "pods is forbidden: User bob cannot list them"
    done = plugin(kubeconfig, "status")
    assert done.returncode == 1
    assert done.stderr == (
        "kubectl nvshare: cannot list the schedulers' pods in nvshare-system: "
        "pods is forbidden: User bob cannot list them\n"
    )


def test_no_kubeconfig(tmp_path: Path) -> None:
    """A workstation without a cluster."""
    write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    done = plugin(None, "status")
    assert done.returncode == 1
    assert "--kubeconfig" in done.stderr
    assert plugin(None, "status", "--kubeconfig", str(tmp_path / "config")).returncode == 1


def test_without_the_extra() -> None:
    """Where the Kubernetes client is not installed, one line says what to install."""
    code = "import sys; sys.modules['kubernetes'] = None; from nvshare.ctl.kubectl.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "status"],
        env={**os.environ, "PYTHONPATH": str(Path(paths.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kubectl nvshare: kubernetes")
    assert done.stderr.endswith("in nvshare's source tree: pip install '.[kubectl]'\n")
    assert done.stderr.count("\n") == 1


def test_help_is_quick() -> None:
    """Help does not load the Kubernetes client."""
    code = (
        "import sys\nfrom nvshare.ctl.kubectl.__main__ import main\n"
        "try: main()\nfinally: assert 'kubernetes' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "status", "--help"],
        env={**os.environ, "PYTHONPATH": str(Path(paths.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: kubectl nvshare status" in done.stdout


def test_there_and_back() -> None:
    """A status that was written as a document and read again is the same; what is unknown is left out."""
    assert status_document.to_status(STATUS) == example()
    assert status_document.to_status({**STATUS, "news": [1]}) == example()

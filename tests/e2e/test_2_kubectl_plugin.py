"""``kubectl nvshare status`` from a workstation, on a cluster where programs take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.kubectl import TESTS, apply, eventually
from tests.e2e.node import Node
from tests.e2e.programs import computing, delete, pod, running

pytestmark = pytest.mark.timeout(180)

NAME = "seen-from-outside"


def plugin(*arguments: str) -> subprocess.CompletedProcess[str]:
    """kubectl with the plugin of this installation."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    command = ["kubectl", "nvshare", "status", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_status_of_all_nodes(simulated: Node) -> None:
    """The node's name, and the client with its pod and container; the same as a document."""
    apply(pod(NAME, computing()))
    try:
        running(NAME)
        place = f"{TESTS}/{NAME}/program"
        eventually("the table shows the pod", lambda: place in plugin().stdout, 30)
        done = plugin("--output", "json")
        assert (done.returncode, done.stderr) == (0, "")
        (node,) = json.loads(done.stdout)["nodes"]
        assert f"node  {node['node']}" in plugin().stdout
        clients = [client for device in node["status"]["devices"] for client in device["clients"]]
        assert (TESTS, NAME, "program") in {(each["namespace"], each["pod"], each["container"]) for each in clients}
    finally:
        delete(NAME)


def test_namespace_without_a_scheduler(simulated: Node) -> None:
    """Exit code 3, as where nvshare is not installed."""
    done = plugin("--namespace", TESTS)
    assert done.returncode == 3
    assert f"no scheduler in namespace {TESTS}" in done.stderr

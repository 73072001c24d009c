"""``kubectl nvshare`` from a workstation, on a cluster where programs take turns."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ctl.terminal import in_session
from tests.e2e.kubectl import TESTS, apply, eventually
from tests.e2e.node import Node
from tests.e2e.programs import computing, delete, pod, running
from tests.polling import poll_until

pytestmark = pytest.mark.timeout(180)

NAME = "seen-from-outside"


def environment(**more: str) -> dict[str, str]:
    """In which kubectl finds the plugin of this installation."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "COLUMNS": "160", **more}


def plugin(*arguments: str, command: str = "status") -> subprocess.CompletedProcess[str]:
    """One command of the plugin, to its end."""
    words = ["kubectl", "nvshare", command, *arguments]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60, check=False)


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


def test_top_and_timeline(simulated: Node) -> None:
    """The pod is in the live screen, with its share of the GPU's time; its turn is a bar in the node's timeline."""
    name = "seen-live"
    apply(pod(name, computing()))
    try:
        running(name)
        command = ["kubectl", "nvshare", "top", "--interval", "1"]
        with in_session(command, environment(TERM="xterm-256color"), 160, 50) as terminal:
            place = f"{TESTS}/{name}/program"
            poll_until(lambda: place in terminal.screen(), "the pod is on the screen", timeout=60)
            share = re.compile(rf"{re.escape(place)} .* \d+%")
            poll_until(lambda: share.search(terminal.screen()), "its share of the time is there", timeout=60)
            terminal.press(b"q")
            assert terminal.process.wait(30) == 0
        eventually("its turn is a bar", lambda: "█" in plugin(command="timeline").stdout, 60)
        page = plugin("--output", "html", command="timeline").stdout
        assert page.startswith("<!doctype html>")
        assert "GPU 0" in page
    finally:
        delete(name)


def test_namespace_without_a_scheduler(simulated: Node) -> None:
    """Exit code 3, as where nvshare is not installed."""
    done = plugin("--namespace", TESTS)
    assert done.returncode == 3
    assert f"no scheduler in namespace {TESTS}" in done.stderr

"""``kubectl nvshare top``: all nodes of a cluster, live in a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nvshare.ctl.showing.status_document import from_status
from tests.ctl.admin_server import example, swapping
from tests.ctl.kubectl.fake_kubernetes import Cluster, Pod, serving
from tests.ctl.kubectl.plugin import COMMAND, plugin, plugin_environment
from tests.ctl.terminal import Terminal, in_session
from tests.polling import poll_until


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """A cluster of two nodes."""
    pods = [
        Pod("scheduler-2", "node-b", json.dumps(from_status(swapping()))),
        Pod("scheduler-1", "node-a", json.dumps(from_status(example()))),
    ]
    cluster = Cluster(pods)
    with serving(cluster, kubeconfig):
        yield cluster


@contextmanager
def top(kubeconfig: Path, columns: int = 120, lines: int = 60) -> Iterator[Terminal]:
    """The program in a terminal of this size."""
    variables = plugin_environment(kubeconfig, TERM="xterm-256color")
    with in_session([*COMMAND, "top", "--interval", "0.2"], variables, columns, lines) as terminal:
        yield terminal


def shows(terminal: Terminal, *texts: str) -> None:
    """Waits until all are on the screen."""
    poll_until(lambda: all(text in terminal.screen() for text in texts), f"{texts} on the screen", timeout=30)


def test_a_section_for_each_node(cluster: Cluster, kubeconfig: Path) -> None:
    """Node by node its GPUs and their clients; whoever does not answer is there with the reason, and asked again."""
    cluster.pods.append(Pod("s", "node-c", stderr="nvshare-ctl: no scheduler runs\n", exit_code=3))
    with top(kubeconfig) as terminal:
        shows(terminal, "3 nodes, 1 without an answer", "no answer: nvshare-ctl: no scheduler runs", "node-b")
        screen = terminal.screen()
        texts = ["node  node-a", "NVIDIA H200", "vision/detector", "node  node-b", "NVIDIA T4", "7.0 GiB", "node-c"]
        places = [screen.index(text) for text in texts]
        assert places == sorted(places)
        cluster.pods[2] = Pod("s", "node-c", json.dumps(from_status(swapping())))
        shows(terminal, "3 nodes  asked")
        cluster.refusal = "pods is forbidden"
        shows(terminal, "pods is forbidden; it is tried again", "node-a")
        cluster.refusal = ""
        shows(terminal, "3 nodes  asked")
        terminal.press(b"q")
        assert terminal.process.wait(20) == 0


def test_share_of_time(cluster: Cluster, kubeconfig: Path) -> None:
    """What a client held between two answers."""
    later = example()
    later.uptime_seconds += 10
    later.devices[0].clients[1].held_seconds += 2.5
    with top(kubeconfig) as terminal:
        shows(terminal, "node-a")
        assert "25%" not in terminal.screen()
        cluster.pods[1] = Pod("scheduler-1", "node-a", json.dumps(from_status(later)))
        poll_until(lambda: "25%" in terminal.output(), "the share is shown", timeout=30)


def test_more_than_fits(cluster: Cluster, kubeconfig: Path) -> None:
    """What has no room is announced, and keys go there; Ctrl-C leaves the terminal as it was."""
    with top(kubeconfig, 80, 10) as terminal:
        shows(terminal, "more lines below", "node-a")
        assert len(terminal.lines()) == 10
        terminal.press(b"\x1b[B\t\t\t\t\t")
        shows(terminal, "NVIDIA T4")
        poll_until(lambda: "below" not in terminal.lines()[-1], "nothing is below")
        terminal.press(b"\x03")
        assert terminal.process.wait(20) == 130
        assert terminal.output().rindex("\x1b[?1049h") < terminal.output().rindex("\x1b[?1049l")


def test_no_terminal(cluster: Cluster, kubeconfig: Path) -> None:
    """One line that names what to use."""
    done = plugin(kubeconfig, "top")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "kubectl nvshare: top needs a terminal; for scripts and files there is: kubectl nvshare status -o json\n"
    )


def test_no_scheduler(cluster: Cluster, kubeconfig: Path) -> None:
    """As with status: exit code 3 before the terminal is touched."""
    cluster.pods.clear()
    with top(kubeconfig) as terminal:
        assert terminal.process.wait(30) == 3
        assert "no scheduler in namespace nvshare-system" in terminal.output()
        assert "\x1b[?1049h" not in terminal.output()

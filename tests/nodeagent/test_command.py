"""nvshare-node-agent from its start to its end, with a scheduler that really runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nvshare.kubernetes.account import Account
from nvshare.paths import RunDir
from tests.conftest import Scheduler
from tests.kubernetes.documents import pod
from tests.kubernetes.fake_api import Cluster
from tests.nodeagent.process import AgentProcess
from tests.polling import poll_until
from tests.resident_memory import LIMIT_BYTES, keeping_bytecode

PODS = "/api/v1/pods"
WAIT = 60.0
MANY = 100

Start = Callable[..., AgentProcess]


@pytest.fixture
def start(reached: Account, run_dir: RunDir) -> Iterator[Start]:
    """Starts agents in the test's run directory; each is killed after the test, if it runs still."""
    with ExitStack() as stack:

        def begin(*options: str, **environment: str) -> AgentProcess:
            agent = AgentProcess(reached, run_dir, *options, **environment)
            stack.callback(agent.kill)
            return agent

        yield begin


def annotated(run_dir: RunDir) -> str:
    """What the scheduler has written down of annotations."""
    return run_dir.annotated.read_text() if run_dir.annotated.exists() else ""


def test_from_start_to_end(
    cluster: Cluster, start: Start, start_scheduler: Callable[..., Scheduler], run_dir: RunDir
) -> None:
    """It tells the scheduler, shows its pages, and leaves a node of which nobody says anything."""
    start_scheduler()
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2", "nvshare.com/priority": "urgent"}))
    agent = start()
    poll_until(lambda: "uid-first" in annotated(run_dir), "the scheduler knows", WAIT)
    poll_until(lambda: agent.get("/readyz") == (200, "ok\n"), "it is ready", WAIT)
    assert agent.get("/healthz")[0] == 200
    poll_until(lambda: cluster.label() == "false", "condition and label are there", WAIT)
    poll_until(lambda: "node_writes_total 1.0" in agent.get("/metrics")[1], "they are counted", WAIT)
    figures = agent.get("/metrics")[1].splitlines()
    for figure in (
        "nvshare_node_agent_node_ready 0.0",
        'nvshare_node_agent_node_reason{reason="PluginAway"} 1.0',
        "nvshare_node_agent_api_up 1.0",
        "nvshare_node_agent_scheduler_up 1.0",
        "nvshare_node_agent_pods 1.0",
        "nvshare_node_agent_annotated_containers 3.0",
        "nvshare_node_agent_invalid_annotations 1.0",
        'nvshare_node_agent_events_total{result="told"} 1.0',
        "nvshare_node_agent_log_lines_dropped_total 0.0",
    ):
        assert figure in figures
    assert agent.terminate() == 0
    assert (cluster.condition(), cluster.label()) == ({}, None)
    assert "uid-first" in annotated(run_dir)


def test_a_killed_agent_leaves_all_as_it_is(
    cluster: Cluster, start: Start, start_scheduler: Callable[..., Scheduler], run_dir: RunDir
) -> None:
    """The next one, while the API is away, does not take anything away either."""
    start_scheduler()
    cluster.put(PODS, pod("first", {"nvshare.com/weight": "2"}))
    agent = start()
    poll_until(lambda: "uid-first" in annotated(run_dir), "the scheduler knows", WAIT)
    agent.kill()
    cluster.refusals["/api"] = (500, "etcd is away")
    agent = start()
    poll_until(lambda: "etcd is away" in agent.get("/readyz")[1], "it says why it is not ready", WAIT)
    assert agent.get("/readyz")[0] == 503
    assert "uid-first" in annotated(run_dir)
    assert agent.terminate() == 0
    assert "uid-first" in annotated(run_dir)


def test_without_a_service_account() -> None:
    """It says where it must run, and not how Python fails."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
    command = [sys.executable, "-m", "nvshare.nodeagent", "--node-name=n"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "nvshare-node-agent: it must run in a pod with a service account whose token is mounted: there is none\n"
    )


def test_a_wrong_option_without_a_service_account() -> None:
    """A wrong command line is that everywhere, and is said first."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
    command = [sys.executable, "-m", "nvshare.nodeagent", "--node-name="]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Invalid value for '--node-name': '' is wrong; allowed: the name of a node" in done.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--node-name=", "'--node-name': '' is wrong; allowed: the name of a node"),
        ("--node-name=a/b", "'--node-name': 'a/b' is wrong; allowed: the name of a node"),
        ("--run-dir=", "'' is no path"),
        ("--metrics-address=here", "not of the form HOST:PORT"),
    ],
)
def test_wrong_options(start: Start, option: str, said: str) -> None:
    """Each is named."""
    agent = start(option)
    assert agent.process.wait(60) == 2
    assert said in agent.text()


def test_the_address_is_taken(start: Start) -> None:
    """One line, and no traceback."""
    first = start()
    second = start(f"--metrics-address=127.0.0.1:{first.port}")
    assert second.process.wait(60) == 1
    assert "choose another with --metrics-address" in second.text()
    assert "Traceback" not in second.text()


def test_ctrl_c_while_the_api_hangs(cluster: Cluster, start: Start) -> None:
    """It ends within the time that kubelet gives it."""
    agent = start()
    poll_until(lambda: cluster.watches == 2, "it watches", WAIT)
    with cluster.changed:
        agent.process.send_signal(signal.SIGINT)
        assert agent.process.wait(8) == 0


def test_resident_memory(
    cluster: Cluster, start: Start, start_scheduler: Callable[..., Scheduler], tmp_path: Path
) -> None:
    """With a hundred annotated pods, of 20 KiB each as real ones, after metrics: less than 64 MB are resident."""
    start_scheduler()
    padding = "x" * 20_000
    for number in range(MANY):
        cluster.put(PODS, pod(f"p{number}", {"nvshare.com/weight": "2", "example.com/big": padding}))
    resident = float("inf")
    # Twice: the first compiles.
    for _ in range(2):
        agent = start(**keeping_bytecode(tmp_path))
        poll_until(lambda agent=agent: f"pods {MANY}.0" in agent.get("/metrics")[1], "all are known", WAIT)
        (line,) = (
            line for line in agent.get("/metrics")[1].splitlines() if line.startswith("process_resident_memory_bytes")
        )
        resident = float(line.split()[1])
        assert agent.terminate() == 0
    print(f"{resident / 1e6:.1f} MB")
    assert resident < LIMIT_BYTES


def test_its_containers_runtime_is_killed(reached: Account, run_dir: RunDir, tool: Callable[[str], str]) -> None:
    """It ends in order: beside the one that follows nobody would end it before the node does."""
    agent = AgentProcess(reached, run_dir, starter=[tool("unshare"), "--pid", "--fork"])
    assert agent.port
    agent.kill()
    poll_until(lambda: any(line["event"] == "stopped" for line in agent.lines()), "it has ended", WAIT)

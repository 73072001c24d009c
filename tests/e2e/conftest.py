"""The installation that the tests share, and what a failed one shows.

The tests change the cluster that KUBECONFIG names, so they run only when asked for: ``make e2e``. They build on one
another in the order of their files: nothing is there, the stack for nodes with GPUs, the simulated one, its end.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.deploy.rendering import RENDER
from tests.e2e.kubectl import SYSTEM, TESTS, KubectlError, allocatable, apply, eventually, kubectl, rolled_out
from tests.e2e.node import POD, Node, start_node_pod
from tests.e2e.programs import Running, computing, kill_all_but, pod, running

FOLDER = Path(__file__).parent
SIMULATED = "deploy/simulated/"
GPUS = 2
VIRTUAL_DEVICES = 20
RELEASE = "nvshare"

Helm = Callable[..., str]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of this folder, and leaves them out where they were not asked for."""
    ours = [item for item in items if FOLDER in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
    if "e2e" not in config.getoption("markexpr"):
        items[:] = [item for item in items if item not in ours]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what the cluster says to the report of a failed test."""
    report = yield
    if report.failed and FOLDER in item.path.parents:
        report.sections.append(("cluster", _situation()))
    return report


@pytest.fixture(scope="session")
def empty_cluster() -> Iterator[None]:
    """A cluster on which nothing of nvshare is, before and after."""
    _clean()
    yield
    _clean()


@pytest.fixture(scope="session")
def node(empty_cluster: None) -> Node:
    """The cluster's node."""
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TESTS}})
    eventually(
        "there is a service account", lambda: kubectl("get", "serviceaccount", "default", "--namespace", TESTS), 30
    )
    return start_node_pod()


@pytest.fixture(scope="session")
def simulated(node: Node) -> Node:
    """The node with the stack of deploy/simulated on it."""
    kubectl("apply", "--filename", SIMULATED)
    rolled_out()
    eventually("the simulated GPUs' virtual devices are there", lambda: allocatable() == VIRTUAL_DEVICES, 60)
    return node


@pytest.fixture(scope="session")
def four(simulated: Node) -> list[Running]:
    """Four endless programs, two on each GPU, which does not have room for both."""
    names = [f"endless-{number}" for number in range(4)]
    apply(*(pod(name, computing()) for name in names))
    return [running(name) for name in names]


@pytest.fixture(scope="session")
def helm() -> Helm:
    """helm, as a person calls it for the release, and all that it says; it fails the test when helm fails."""

    def call(command: str, *arguments: str) -> str:
        program = RENDER["find_helm"]()
        assert program, "run make helm"
        done = subprocess.run(
            [program, command, RELEASE, *arguments, "--namespace", SYSTEM],
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return call


@pytest.fixture(scope="module")
def emptied(node: Node) -> Iterator[Node]:
    """The node without nvshare, before and after."""
    kill_all_but(POD)
    kubectl("delete", "--filename", SIMULATED, "--ignore-not-found", timeout=120)
    eventually("no virtual device is left", lambda: allocatable() == 0, 60)
    yield node
    kill_all_but(POD)
    kubectl("delete", "--filename", SIMULATED, "--ignore-not-found", timeout=120)


def _clean() -> None:
    for namespace in (TESTS, SYSTEM):
        with contextlib.suppress(KubectlError):
            kubectl("delete", "pods", "--all", "--namespace", namespace, "--grace-period=0", "--force")
        kubectl("delete", "namespace", namespace, "--ignore-not-found", timeout=120)


def _situation() -> str:
    """Events, pods and the logs of the parts."""
    commands = (
        ("get", "pods", "--all-namespaces", "--output", "wide"),
        ("get", "events", "--all-namespaces", "--sort-by", ".lastTimestamp"),
        ("logs", "--namespace", SYSTEM, "--tail=40", "--all-containers", "--selector", _part("scheduler")),
        ("logs", "--namespace", SYSTEM, "--tail=40", "--all-containers", "--selector", _part("device-plugin")),
        ("logs", "--namespace", SYSTEM, "--tail=40", "--all-containers", "--selector", _part("node-agent")),
        ("exec", "--namespace", SYSTEM, "daemonset/nvshare-scheduler", "--", "nvshare-ctl", "status"),
    )
    return "\n".join(f"$ kubectl {' '.join(command)}\n{_try(command)}" for command in commands)


def _part(name: str) -> str:
    return f"app.kubernetes.io/name=nvshare-{name}"


def _try(command: tuple[str, ...]) -> str:
    try:
        return "\n".join(kubectl(*command, timeout=30).splitlines()[-60:])
    except Exception as error:  # whatever it is, the test's own failure must still be shown
        return str(error)

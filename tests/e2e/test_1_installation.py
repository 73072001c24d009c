"""The shipped manifests, unedited, on an empty cluster."""

from __future__ import annotations

import json

import pytest

from tests.e2e.kubectl import PLUGIN, RESOURCE, SYSTEM, allocatable, get, kubectl, rolled_out
from tests.e2e.node import Node

pytestmark = pytest.mark.timeout(240)


def test_the_manifests_come_up_on_a_node_without_gpus(node: Node) -> None:
    """All DaemonSets are ready; the plugin waits quietly for a GPU, offers nothing and is not restarted."""
    kubectl("apply", "--filename", "deploy/")
    rolled_out()
    pods = get("pods", namespace=SYSTEM)["items"]
    restarts = [status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"]]
    assert restarts == [0, 0, 0]
    if allocatable() == 0:
        lines = kubectl("logs", "--namespace", SYSTEM, PLUGIN).splitlines()
        assert len([line for line in lines if "no GPU" in json.loads(line)["event"]]) == 1, lines


def test_kustomize_makes_the_same(node: Node) -> None:
    """``kubectl apply -k`` and ``kubectl apply -f`` have nothing to tell one another."""
    for folder in ("deploy", "deploy/simulated"):
        built = kubectl("apply", "--kustomize", folder, "--dry-run=server", "--output=name").split()
        listed = kubectl("apply", "--filename", folder, "--dry-run=server", "--output=name").split()
        assert sorted(built) == sorted(listed)


def test_the_simulated_stack_comes_up(simulated: Node) -> None:
    """Two simulated GPUs are offered ten times each, on a node that has none."""
    assert [node["status"]["allocatable"][RESOURCE] for node in get("nodes")["items"]] == ["20"]


@pytest.mark.parametrize("folder", ["deploy/examples", "deploy/simulated/examples"])
def test_the_examples_are_accepted(node: Node, folder: str) -> None:
    """The API has nothing against them."""
    names = kubectl("apply", "--filename", folder, "--dry-run=server", "--output=name").split()
    assert names


@pytest.mark.parametrize(
    ("part", "port", "figure"),
    [
        ("nvshare-scheduler", 9402, "nvshare_scheduler_connections"),
        ("nvshare-device-plugin", 9403, "nvshare_plugin_virtual_devices"),
        ("nvshare-node-agent", 9404, "nvshare_node_agent_api_up 1.0"),
    ],
)
def test_metrics(simulated: Node, part: str, port: int, figure: str) -> None:
    """Each part serves figures for Prometheus on their pod's address."""
    pods = get("pods", namespace=SYSTEM)["items"]
    name = next(pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith(part))
    text = kubectl("get", "--raw", f"/api/v1/namespaces/{SYSTEM}/pods/{name}:{port}/proxy/metrics")
    assert figure in text


def test_only_the_agent_has_a_token(simulated: Node) -> None:
    """The other parts on the nodes need nothing of the Kubernetes API."""
    for pod in get("pods", namespace=SYSTEM)["items"]:
        volumes = [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
        assert bool(volumes) == pod["metadata"]["name"].startswith("nvshare-node-agent-")

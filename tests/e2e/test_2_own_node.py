"""What the node agent's own token is good for: its own node's condition and label, and the agent's own events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.kubectl import AGENT, SYSTEM, TESTS, KubectlError, Object, apply, eventually, get, kubectl
from tests.e2e.node import Node

pytestmark = pytest.mark.timeout(240)

OTHER = "made-up"
READY = "nvshare.com/Ready"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
CONDITION = {"type": READY, "status": "True", "reason": "Mine", "message": ""}
_PATCH = """
import asyncio, os, sys
from nvshare.nodeagent.api_server import ApiError, ApiServer, account_of
try:
    asyncio.run(ApiServer(account_of(os.environ), print).patch(sys.argv[1], "merge-patch", {"message": "changed"}))
except ApiError as error:
    print(error)
"""
"""By the agent's own client: kubectl would first have to read the event, which the agent may not."""

Call = Callable[..., str]


@pytest.fixture(scope="module")
def own(simulated: Node) -> str:
    """The name of the agent's node."""
    (node,) = get("nodes")["items"]
    return str(node["metadata"]["name"])


@pytest.fixture(scope="module")
def other(own: str) -> Iterator[str]:
    """A node that is nothing but its object; no pod is for it."""
    apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER, "labels": {"nvshare.com/deploy": "paused"}}})
    try:
        yield OTHER
    finally:
        kubectl("delete", "node", OTHER)


@pytest.fixture(scope="module")
def agent(own: str, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """kubectl with the agent's token and nothing else, from outside of its pod."""
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "--output", "json"))
    token = kubectl("exec", "--namespace", SYSTEM, AGENT, "--", "cat", TOKEN).strip()
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    file: Path = tmp_path_factory.mktemp("agent") / "kubeconfig"
    file.write_text(json.dumps(config))
    return lambda *arguments, **more: kubectl("--kubeconfig", str(file), *arguments, **more)


def patched(agent: Call, node: str, patch: Object, *options: str) -> str:
    """What the API server has against it; empty: nothing. Nothing is changed."""
    try:
        agent("patch", "node", node, "--dry-run=server", "--patch", json.dumps(patch), *options)
    except KubectlError as error:
        return str(error)
    return ""


def test_the_policy_is_understood(own: str) -> None:
    """The API server finds nothing wrong in its expressions."""

    def checked() -> object:
        return get("validatingadmissionpolicy", "nvshare-own-node").get("status", {}).get("typeChecking")

    eventually("its expressions are checked", lambda: checked() is not None, 60)
    assert checked() == {}


def test_another_node(agent: Call, own: str, other: str) -> None:
    """Neither label nor condition, not even those that are the agent's on its own node."""
    said = f"the node agent of {own} may change only that node"
    assert said in patched(agent, other, {"metadata": {"labels": {READY: "true"}}})
    assert said in patched(agent, other, {"metadata": {"labels": {"mine": "too"}}})
    assert said in patched(agent, other, {"status": {"conditions": [CONDITION]}}, "--subresource=status")


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}},
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {"mine": "too"}}},
        {"metadata": {"labels": {"kubernetes.io/os": "other"}}},
        {"metadata": {"labels": {"kubernetes.io/os": None}}},
        {"metadata": {"annotations": {"mine": "too"}}},
        {"metadata": {"finalizers": ["mine.example/stays"]}},
    ],
    ids=json.dumps,
)
def test_other_keys_of_its_own_node(agent: Call, own: str, patch: Object) -> None:
    """Its label is all that it may write of the object itself."""
    assert "may change only the label nvshare.com/Ready" in patched(agent, own, patch)


@pytest.mark.parametrize(
    "status",
    [
        {"capacity": {"nvshare.com/gpu": "99"}},
        {"allocatable": {"mine.example/thing": "1"}},
        {"conditions": [{**CONDITION, "type": "Ready", "status": "False"}]},
        {"conditions": [{**CONDITION, "type": "MemoryPressure", "status": "True"}]},
        {"conditions": [{"type": "Ready", "$patch": "delete"}]},
    ],
    ids=json.dumps,
)
def test_the_rest_of_its_own_status(agent: Call, own: str, status: Object) -> None:
    """Its condition is all that it may write of it."""
    said = patched(agent, own, {"status": status}, "--subresource=status")
    assert "may change only the condition nvshare.com/Ready" in said


def test_labels_by_way_of_the_status(agent: Call, own: str) -> None:
    """The API server takes labels there, too."""
    said = patched(agent, own, {"metadata": {"labels": {"mine": "too"}}}, "--subresource=status")
    assert "may change only the label nvshare.com/Ready" in said


def test_its_own_is_allowed(agent: Call, own: str) -> None:
    """What the agent itself does, and undoes."""
    assert patched(agent, own, {"metadata": {"labels": {READY: "false"}}}) == ""
    assert patched(agent, own, {"metadata": {"labels": {READY: None}}}) == ""
    for condition in (CONDITION, {"type": READY, "$patch": "delete"}):
        assert patched(agent, own, {"status": {"conditions": [condition]}}, "--subresource=status") == ""


def event(**changed: object) -> Object:
    """One as the agent writes it, but for the changes."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "own-node.1", "namespace": TESTS},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": TESTS, "name": "any"},
        "type": "Warning",
        "reason": "InvalidAnnotation",
        "message": "a test's",
        "reportingComponent": "nvshare-node-agent",
        **changed,
    }


def test_events(agent: Call, own: str) -> None:
    """About pods, in its own name and that of its node; nobody else's is changed."""
    mine = {"reportingInstance": own, "source": {"component": "nvshare-node-agent", "host": own}}

    def refused(made: Object) -> bool:
        try:
            agent("create", "--dry-run=server", "--filename", "-", stdin=json.dumps(made))
        except KubectlError as error:
            return "only its own events about invalid annotations" in str(error)
        return False

    assert not refused(event(**mine))
    assert refused(event(**{**mine, "reportingInstance": OTHER}))
    assert refused(event(**mine, reason="Killing"))
    assert refused(event(**{**mine, "reportingComponent": "kubelet"}))
    apply(event(**mine, reason="Killing"))
    try:
        path = f"/api/v1/namespaces/{TESTS}/events/own-node.1"
        said = kubectl("exec", "--namespace", SYSTEM, AGENT, "--", "python3", "-c", _PATCH, path)
        assert "only its own events about invalid annotations" in said
    finally:
        kubectl("delete", "event", "own-node.1", "--namespace", TESTS)


def test_a_token_of_no_node(own: str) -> None:
    """One that was made by hand for the account is good for nothing that changes something."""
    user = f"system:serviceaccount:{SYSTEM}:nvshare-node-agent"
    said = patched(
        lambda *arguments, **more: kubectl(*arguments, f"--as={user}", **more),
        own,
        {"metadata": {"labels": {READY: "x"}}},
    )
    assert "names no node" in said

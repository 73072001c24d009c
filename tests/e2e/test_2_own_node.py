"""What the node agent's own token is good for: its own node's condition and label, and the agent's own events."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.e2e.kubectl import AGENT, SYSTEM, TESTS, KubectlError, Object, apply, eventually, get, kubectl
from tests.e2e.node import Node

pytestmark = pytest.mark.timeout(240)

OTHER = "made-up"
READY = "nvshare.com/Ready"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
CONDITION = {"type": READY, "status": "True", "reason": "Mine", "message": ""}
Call = Callable[[str, str, Object], str]
"""Takes a method, a path and a document; what the API server has against that. Empty: nothing. Nothing is changed."""


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
def token(own: str) -> str:
    """The agent's own."""
    return kubectl("exec", "--namespace", SYSTEM, AGENT, "--", "cat", TOKEN).strip()


@pytest.fixture(scope="module")
def agent(token: str) -> Call:
    """Who has the agent's token and nothing else. Not kubectl, which reads what it changes: that is forbidden, too."""
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "--output", "json"))
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)

    def call(method: str, path: str, document: Object) -> str:
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        request = Request(
            f"{cluster['server']}{path}?dryRun=All",
            json.dumps(document).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": kind},
            method=method,
        )
        try:
            with urlopen(request, timeout=30, context=tls):
                return ""
        except HTTPError as error:
            return str(json.load(error)["message"])

    return call


def patched(agent: Call, node: str, patch: Object, subresource: str = "") -> str:
    """What the API server has against the agent's change of a node; empty: nothing."""
    return agent("PATCH", f"/api/v1/nodes/{node}{subresource}", patch)


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
    assert said in patched(agent, other, {"status": {"conditions": [CONDITION]}}, "/status")


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
    assert "may change only its labels" in patched(agent, own, patch)


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
    said = patched(agent, own, {"status": status}, "/status")
    assert "may change only the condition nvshare.com/Ready" in said


def test_labels_by_way_of_the_status(agent: Call, own: str) -> None:
    """The API server takes labels there, too."""
    said = patched(agent, own, {"metadata": {"labels": {"mine": "too"}}}, "/status")
    assert "may change only its labels" in said


def test_its_own_is_allowed(agent: Call, own: str) -> None:
    """What the agent itself does, and undoes."""
    assert patched(agent, own, {"metadata": {"labels": {READY: "false"}}}) == ""
    assert patched(agent, own, {"metadata": {"labels": {READY: None}}}) == ""
    for condition in (CONDITION, {"type": READY, "$patch": "delete"}):
        assert patched(agent, own, {"status": {"conditions": [condition]}}, "/status") == ""


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
    foreign = "may write only its own events about invalid annotations of pods"
    mine = {"reportingInstance": own, "source": {"component": "nvshare-node-agent", "host": own}}

    def refused(made: Object) -> bool:
        said = agent("POST", f"/api/v1/namespaces/{TESTS}/events", made)
        assert said == "" or foreign in said
        return said != ""

    assert not refused(event(**mine))
    assert refused(event(**{**mine, "reportingInstance": OTHER}))
    assert refused(event(**mine, reason="Killing"))
    assert refused(event(**{**mine, "reportingComponent": "kubelet"}))
    apply(event(**mine, reason="Killing"))
    try:
        assert foreign in agent("PATCH", f"/api/v1/namespaces/{TESTS}/events/own-node.1", {"message": "changed"})
    finally:
        kubectl("delete", "event", "own-node.1", "--namespace", TESTS)


def test_a_token_of_no_node(own: str) -> None:
    """One that was made by hand for the account is good for nothing that changes something."""
    user = f"system:serviceaccount:{SYSTEM}:nvshare-node-agent"
    patch = json.dumps({"metadata": {"labels": {READY: "x"}}})
    with pytest.raises(KubectlError, match="names no node"):
        kubectl("patch", "node", own, "--dry-run=server", f"--as={user}", "--patch", patch)

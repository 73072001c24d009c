"""Annotations of running pods, and what the node says of itself, by the node agent."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.kubectl import (
    AGENT,
    SCHEDULER,
    SYSTEM,
    TESTS,
    KubectlError,
    Object,
    apply,
    eventually,
    get,
    kubectl,
    parts,
    restarts,
    rolled_out,
    scheduler_status,
)
from tests.e2e.node import POD, Node
from tests.e2e.programs import delete, kill_all_but, log, pod

pytestmark = pytest.mark.timeout(300)

NAME = "annotated"
MIB = 1 << 20
GPU_BYTES = 1 << 30
CONFIG = "/var/run/nvshare/node/config"
WAIT = 60
_VIEW = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    if status := getattr(cuda, name)(*arguments):
        raise SystemExit(f"{name}: {status}")
device, context, free, total = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
shown = None
while True:
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    if total.value != shown:
        shown = total.value
        print(shown, flush=True)
    time.sleep(0.1)
"""
"""Prints how much memory the GPU has, as the program sees it, and again when that changes."""


@pytest.fixture(scope="module")
def annotated(simulated: Node) -> Iterator[str]:
    """A pod with annotations whose program looks at its GPU's memory."""
    kill_all_but(POD)
    made = pod(NAME, ["python3", "-c", _VIEW])
    made["metadata"]["annotations"] = {
        "nvshare.com/memory-limit": "300Mi",
        "nvshare.com/weight": "2",
        "nvshare.com/container.program.weight": "3",
    }
    apply(made)
    yield NAME
    delete(NAME)


def test_the_node_says_that_it_is_ready(simulated: Node) -> None:
    """By a condition with its reason, and by a label."""
    eventually("the node is ready", lambda: says("True", "Ready", "true"), WAIT)
    assert condition()["message"] == "2 GPUs, 20 virtual devices"


def test_annotations_count(annotated: str) -> None:
    """The program sees the limit; the status says that annotations are the reason. Changed, they change it live."""
    eventually("the program sees the limit", lambda: sees(300 * MIB), WAIT)
    eventually("its container's weight counts", lambda: terms()["weight"] == 3, WAIT)
    assert terms()["memory_limit_bytes"] == 300 * MIB
    assert terms()["by_annotation"] == ["weight", "memory_limit_bytes"]
    annotate("nvshare.com/memory-limit=200Mi")
    eventually("the program sees the new limit", lambda: sees(200 * MIB), WAIT)
    kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", "nvshare-ctl", "set", "weight", "5", full_name())
    assert terms()["weight"] == 5
    annotate("nvshare.com/memory-limit-")
    eventually("the program sees the whole GPU", lambda: sees(GPU_BYTES), WAIT)
    annotate("nvidia.com/container.program.gpu-memory.limit=100Mi")
    eventually("the program sees NVIDIA's limit", lambda: sees(100 * MIB), WAIT)


def test_a_wrong_value_is_an_event(annotated: str) -> None:
    """The pod's events say what is allowed, and what is right counts on."""
    annotate("nvshare.com/compute-limit=much")
    eventually("it is said", lambda: any("'much' is no percentage" in text for text in complaints()), WAIT)
    assert terms()["compute_limit"] is None
    assert terms()["memory_limit_bytes"] == 100 * MIB


def test_without_the_agent_nothing_changes(annotated: str, simulated: Node) -> None:
    """Killed, it comes back. While it is gone for good, what it told outlives the scheduler; the node says so."""
    before, known = restarts("nvshare-node-agent"), terms()
    simulated.kill("nvshare-node-agent")
    assert terms() == known
    eventually("it is there again", lambda: restarts("nvshare-node-agent") > before, WAIT)
    rolled_out()
    assert terms() == known
    place({"nvshare.test/nowhere": "true"})
    eventually("the agent is gone", lambda: not parts("node-agent"), WAIT)
    (node,) = get("nodes")["items"]
    assert "nvshare.com/Ready" not in node["metadata"]["labels"]
    assert not [each for each in node["status"]["conditions"] if each["type"] == "nvshare.com/Ready"]
    pid = scheduler_status()["scheduler_pid"]
    simulated.kill("nvshare-scheduler")
    eventually("there is another scheduler", lambda: scheduler_status()["scheduler_pid"] != pid, WAIT)
    eventually("the limit counts", lambda: terms() == known, WAIT)
    place(None)
    rolled_out()
    eventually("the node is ready", lambda: says("True", "Ready", "true"), WAIT)
    eventually("the program sees the limit", lambda: sees(100 * MIB), WAIT)


def test_a_label_chooses_settings(simulated: Node) -> None:
    """The plugin finds its value in the run directory, and nothing when it is gone."""
    (node,) = get("nodes")["items"]
    kubectl("label", "node", node["metadata"]["name"], "nvshare.com/device-plugin.config=small")
    try:
        eventually("the file is there", lambda: on_node("cat", CONFIG) == "small\n", WAIT)
    finally:
        kubectl("label", "node", node["metadata"]["name"], "nvshare.com/device-plugin.config-")
    eventually("the file is gone", lambda: on_node("ls", "/var/run/nvshare/node") == "", WAIT)


def annotate(change: str) -> None:
    """As a person does it."""
    kubectl("annotate", "pod", NAME, "--namespace", TESTS, "--overwrite", change)


def sees(size_bytes: int) -> bool:
    """Whether the program saw this much memory last. The library has something to say of a scheduler that is away."""
    return [line for line in log(NAME).splitlines() if line.isdigit()][-1:] == [str(size_bytes)]


def terms() -> Object:
    """Of the pod's only client, as the scheduler's status shows them."""
    clients = [client for device in scheduler_status()["devices"] for client in device["clients"]]
    found = [client["terms"] for client in clients if client["member_of"] == full_name()]
    if len(found) != 1:
        raise KubectlError(f"the status shows {len(found)} clients of the pod")
    return dict(found[0])


def full_name() -> str:
    """The container's, as the scheduler calls it."""
    return f"{TESTS}/{NAME}/program"


def complaints() -> list[str]:
    """What events say of the pod's annotations."""
    events = get("events")["items"]
    own = [event for event in events if event["reason"] == "InvalidAnnotation"]
    return [event["message"] for event in own if event["involvedObject"]["name"] == NAME]


def condition() -> Object:
    """What the node says about nvshare; empty: nothing."""
    (node,) = get("nodes")["items"]
    found = [dict(each) for each in node["status"]["conditions"] if each["type"] == "nvshare.com/Ready"]
    return found[0] if found else {}


def says(status: str, reason: str, label: str | None) -> bool:
    """Whether the node's condition and label are these."""
    (node,) = get("nodes")["items"]
    found = condition()
    labelled = node["metadata"]["labels"].get("nvshare.com/Ready")
    return (found.get("status"), found.get("reason"), labelled) == (status, reason, label)


def place(selector: dict[str, str] | None) -> None:
    """Where the agent shall run; None: everywhere."""
    patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": selector}}}})
    kubectl("patch", "--namespace", SYSTEM, AGENT, "--type=merge", "--patch", patch)


def on_node(*command: str) -> str:
    """What a command in the scheduler's container prints."""
    return kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", *command)

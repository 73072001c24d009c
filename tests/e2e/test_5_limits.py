"""A memory limit in an annotation, from the first allocation on: of many pods at once, and without a node agent."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.kubectl import AGENT, SYSTEM, Object, apply, eventually, kubectl, parts, rolled_out, scheduler_status
from tests.e2e.node import POD, Node
from tests.e2e.programs import delete, ended, kill_all_but, log, pod

pytestmark = pytest.mark.timeout(600)

PODS = 24
LIMIT = "64Mi"
MIB = 1 << 20
WAIT = 120
_ALLOCATE = f"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_ulonglong()
said = [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0)]
said += [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context)]
said += [cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size)) for size in ({96 * MIB}, {32 * MIB})]
print("said", said, flush=True)
"""
"""Allocates at once more than the limit and then less, and prints what the driver answered."""
HELD = "said [0, 0, 0, 0, 2, 0]"


@pytest.fixture(autouse=True)
def alone(simulated: Node) -> Iterator[None]:
    """No other pod of the tests is there, before and after."""
    kill_all_but(POD)
    yield
    kill_all_but(POD)


def limited(name: str) -> Object:
    """A pod with a limit, whose program tries to pass it with its first allocation."""
    made = pod(name, ["python3", "-c", _ALLOCATE])
    made["metadata"]["annotations"] = {"nvshare.com/memory-limit": LIMIT}
    return made


def test_it_holds_for_very_many_at_once() -> None:
    """24 pods that are started together."""
    names = [f"limited-{number}" for number in range(PODS)]
    apply(*map(limited, names))
    assert {ended(name, 300) for name in names} == {"Succeeded"}
    passed = {name: log(name) for name in names if not held(name)}
    assert not passed, f"{len(passed)} of {PODS} passed their limit: {passed}"


def test_without_the_agent_it_waits() -> None:
    """A pod that comes while there is no agent gets memory when that is back, and no more than it may have."""
    place({"nvshare.test/nowhere": "true"})
    try:
        eventually("the agent is gone", lambda: not parts("node-agent"), WAIT)
        apply(limited("limited"))
        eventually("the status says what it waits for", waits, WAIT)
    finally:
        place(None)
    rolled_out()
    assert ended("limited", WAIT) == "Succeeded"
    assert held("limited"), log("limited")
    delete("limited")


def held(name: str) -> bool:
    """Whether a limited pod got what its limit allows, and no more."""
    return HELD in log(name).splitlines()


def waits() -> bool:
    """Whether the only client waits for the node agent's word."""
    clients = [client for device in scheduler_status()["devices"] for client in device["clients"]]
    return [client["memory_wait"] for client in clients] == [
        "nvshare-node-agent has not told yet what its pod's annotations say"
    ]


def place(selector: dict[str, str] | None) -> None:
    """Where the agent shall run; None: everywhere."""
    patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": selector}}}})
    kubectl("patch", "--namespace", SYSTEM, AGENT, "--type=merge", "--patch", patch)

"""Who is who: pods by name in the scheduler's status, and those that share a GPU without nvshare's knowledge."""

from __future__ import annotations

import pytest

from tests.e2e.kubectl import TESTS, Object, apply, eventually, scheduler_status
from tests.e2e.node import Node
from tests.e2e.programs import computing, computing_on_each, delete, log, pod, running

_REFUSED = "refuses this process for good: kubelet gave this container other GPUs than"

pytestmark = pytest.mark.timeout(180)


def test_pods_with_and_without_client(simulated: Node) -> None:
    """A client is shown with its pod; a pod that dropped the library or sees no GPU is shown as one without client."""
    pods = {
        "as-injected": None,
        "own-preload": {"LD_PRELOAD": ""},
        "own-devices": {"NVIDIA_VISIBLE_DEVICES": "none"},
    }
    apply(
        *(pod(name, computing() if name != "own-devices" else ["sleep", "1000"], 1, own) for name, own in pods.items())
    )
    try:
        for name in ("as-injected", "own-preload"):
            running(name)
        eventually("all three are shown", lambda: _without_client() == {"own-preload", "own-devices"}, 15)
        (client,) = [each for device in scheduler_status()["devices"] for each in device["clients"]]
        shown = {key: client[key] for key in ("namespace", "pod", "container", "identity_source")}
        assert shown == {"namespace": TESTS, "pod": "as-injected", "container": "program", "identity_source": "kernel"}
    finally:
        delete(*pods)


def test_a_pod_that_uses_a_gpu_that_it_was_not_given(simulated: Node) -> None:
    """It sees all GPUs because it asks to: on its own it computes, and is refused on the other one, and told why."""
    uuids = simulated.uuids()
    apply(pod("everywhere", computing_on_each(len(uuids)), 1, {"NVIDIA_VISIBLE_DEVICES": "all"}))
    try:
        running("everywhere")
        eventually("it is refused", lambda: any(f"{_REFUSED} {uuid}" in log("everywhere") for uuid in uuids), 30)
        [refused] = [uuid for uuid in uuids if f"{_REFUSED} {uuid}" in log("everywhere")]
        eventually(
            "it is where it may be",
            lambda: (
                [device["uuid"] for device in scheduler_status()["devices"] for _ in device["clients"]]
                == [uuid for uuid in uuids if uuid != refused]
            ),
            15,
        )
    finally:
        delete("everywhere")


def _without_client() -> set[str]:
    devices: list[Object] = scheduler_status()["devices"]
    return {entry["pod"] for device in devices for entry in device["allocations_without_client"]}

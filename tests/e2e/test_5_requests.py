"""Settings that a cluster's operator changes, and many pods at once."""

from __future__ import annotations

import pytest

from tests.e2e.kubectl import allocatable, apply, configure, eventually, get
from tests.e2e.node import POD, Node
from tests.e2e.programs import delete, ended, kill_all_but, pod, probing
from tests.resident_memory import LIMIT_BYTES

pytestmark = pytest.mark.timeout(400)

PODS = 100


@pytest.fixture(scope="module")
def wide(simulated: Node) -> Node:
    """A hundred virtual devices for each GPU, and only for requests that different GPUs can serve."""
    kill_all_but(POD)
    configure({"virtual_devices": PODS, "require_distinct": True})
    eventually("the devices are there", lambda: allocatable() == 2 * PODS, 60)
    return simulated


def test_more_than_there_are_gpus_is_refused(wide: Node) -> None:
    """With require_distinct a pod that asks for three of two GPUs fails, and its events say why."""
    apply(pod("three-of-two", probing(), gpus=3))
    assert ended("three-of-two") == "Failed"
    told = "\n".join(
        event["message"] for event in get("events")["items"] if "three-of-two" in event["metadata"]["name"]
    )
    assert "2 GPUs" in told, told
    apply(pod("two-of-two", probing(), gpus=2))
    assert ended("two-of-two") == "Succeeded"
    delete("three-of-two", "two-of-two")


def test_a_hundred_pods_at_once(wide: Node) -> None:
    """All start, and run at the same time."""
    names = {f"one-of-{PODS}-{number}" for number in range(PODS)}
    apply(*(pod(name, ["sleep", "infinity"]) for name in names))

    def states() -> list[str]:
        return [each["status"]["phase"] for each in get("pods")["items"] if each["metadata"]["name"] in names]

    eventually("all run", lambda: states() == ["Running"] * PODS, 300)
    kill_all_but(POD)


@pytest.mark.parametrize("program", ["nvshare-scheduler", "nvshare-device-plugin", "nvshare-node-agent"])
def test_the_parts_are_small(wide: Node, program: str) -> None:
    """After a hundred pods each has less than 64 MB resident, libraries that others use too included."""
    resident = wide.resident_bytes(program)
    print(f"{program}: {resident / 1e6:.1f} MB")
    assert resident < LIMIT_BYTES

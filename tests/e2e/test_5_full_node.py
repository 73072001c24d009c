"""More pods than the GPUs and the host's memory together can take: each waits until there is room, and ends right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import VIRTUAL_DEVICES
from tests.e2e.kubectl import allocatable, apply, eventually, scheduler_status
from tests.e2e.node import POD, Node
from tests.e2e.programs import (
    BLOCK_BYTES,
    BLOCKS,
    computing_until_told,
    delete,
    ended,
    events,
    kill_all_but,
    log,
    once_told,
    phase,
    pod,
    tell_to_begin,
    tell_to_end,
)

pytestmark = pytest.mark.timeout(900)

PODS = 12
"""Of 768 MiB each, beside two GPUs of one GiB and six of host memory."""
WAIT = 300


@pytest.fixture(autouse=True)
def alone(simulated: Node) -> Iterator[None]:
    """No other pod of the tests is there, before and after."""
    kill_all_but(POD)
    yield
    kill_all_but(POD)


def test_each_has_its_memory_in_the_end() -> None:
    """All start at once. Some wait for memory, and say so; fewer devices are offered; nobody is out of memory."""
    names = [f"full-{number}" for number in range(PODS)]
    apply(*(pod(name, computing_until_told()) for name in names))
    eventually("those that have memory have all of it, and others wait", is_full, WAIT)
    eventually("fewer devices are offered", lambda: allocatable() < VIRTUAL_DEVICES, 60)
    assert allocatable() >= PODS
    for name in names:
        tell_to_end(name)
    assert {name: ended(name, WAIT) for name in names} == dict.fromkeys(names, "Succeeded"), log(names[0])
    assert [events(name)[-1]["right"] for name in names] == [True] * PODS
    eventually("all devices are offered again", lambda: allocatable() == VIRTUAL_DEVICES, 60)
    delete(*names)


def test_who_says_so_is_refused() -> None:
    """A program that can do with less hears at once that there is not so much.

    Its pod is there before the node is full: then there is no device for another.
    """
    hasty = pod("hasty", once_told(computing_until_told()))
    hasty["metadata"]["annotations"] = {"nvshare.com/when-full": "refuse"}
    apply(hasty)
    eventually("the pod runs", lambda: phase("hasty") == "Running", WAIT)
    names = [f"full-{number}" for number in range(PODS)]
    apply(*(pod(name, computing_until_told()) for name in names))
    eventually("those that have memory have all of it, and others wait", is_full, WAIT)
    tell_to_begin("hasty")
    assert ended("hasty", WAIT) == "Failed"
    assert "OUT_OF_MEMORY" in log("hasty")


def is_full() -> bool:
    """Whether all pods are there and each has all that it wants, or waits for others' ends."""
    clients = [client for device in scheduler_status()["devices"] for client in device["clients"]]
    waiting = [client for client in clients if "others have to end" in (client["memory_wait"] or "")]
    others = [client for client in clients if not client["memory_wait"]]
    served = [client for client in others if (client["footprint_bytes"] or 0) >= BLOCKS * BLOCK_BYTES]
    return len(clients) == PODS and len(waiting) > 0 and len(waiting) + len(served) == PODS

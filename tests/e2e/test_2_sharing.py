"""Pods that share GPUs, as the examples have it."""

from __future__ import annotations

from collections import Counter

import pytest

from nvshare.simgpu.turns import turns
from tests.e2e.kubectl import TESTS, apply, eventually, get, kubectl, scheduler_status
from tests.e2e.node import Node, check_turns, turn_list
from tests.e2e.programs import computing, delete, ended, events, pod, probing, running, seen_uuids

pytestmark = pytest.mark.timeout(240)

FOUR_PODS = "deploy/simulated/examples/four-pods.yaml"
TWO_GPUS = "deploy/simulated/examples/two-gpus.yaml"
ONE_PODS_BYTES = 768 << 20


def swapped_out() -> list[int]:
    """How much has left each device so far."""
    return [device["swapping"]["out_bytes"] for device in scheduler_status()["devices"]]


def test_four_pods_on_two_gpus_take_turns(simulated: Node) -> None:
    """The example's four pods of 768 MiB: two on each GPU of 1 GiB, never both at once, and every result is right.

    The memory of the one that waits is swapped out. On a machine that is slow to move it, turns are longer than two
    seconds, as they should be.
    """
    since, swapped = simulated.clock_ns(), swapped_out()
    kubectl("apply", "--namespace", TESTS, "--filename", FOUR_PODS)
    eventually("the example's pods end", lambda: get("job", "four-pods")["status"].get("completionTime"), 120)
    names = [each["metadata"]["name"] for each in get("pods")["items"] if each["metadata"]["name"].startswith("four")]
    reported = [events(name) for name in names]
    assert [each[-1]["right"] for each in reported] == [True] * 4, reported
    assert sorted(Counter(each[0]["device"] for each in reported).values()) == [2, 2]
    devices = simulated.spans(since)
    check_turns(devices)
    for spans in devices:
        assert len({span.client for span in spans}) == 2
        assert len(turns(spans)) > 2, turn_list(spans)
    for before, now in zip(swapped, swapped_out(), strict=True):
        assert now - before > ONE_PODS_BYTES // 2, (before, now)
    kubectl("delete", "--namespace", TESTS, "--filename", FOUR_PODS)


def test_two_virtual_devices_are_of_two_gpus(simulated: Node) -> None:
    """The example's container with two virtual devices sees both GPUs of the node."""
    kubectl("apply", "--namespace", TESTS, "--filename", TWO_GPUS)
    assert ended("two-gpus") == "Succeeded"
    assert len(set(seen_uuids("two-gpus"))) == 2
    delete("two-gpus")


def test_three_virtual_devices_of_two_gpus(simulated: Node) -> None:
    """Without --require-distinct a container may have two virtual devices of one GPU; it sees each GPU once."""
    apply(pod("three", probing(), gpus=3))
    assert ended("three") == "Succeeded"
    assert len(seen_uuids("three")) == len(set(seen_uuids("three"))) == 2
    delete("three")


def test_a_program_that_ends_makes_room(simulated: Node) -> None:
    """A pod that is done holds nothing: the next one on its GPU begins at once."""
    since = simulated.clock_ns()
    for name in ("first", "second"):
        apply(pod(name, computing(steps=20)))
        running(name)
        assert ended(name) == "Succeeded"
    check_turns(simulated.spans(since))
    delete("first", "second")

"""Pods that share GPUs, as the examples have it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.kubectl import TESTS, apply, eventually, get, kubectl, scheduler_status
from tests.e2e.node import TURN_SECONDS, Node, check_turns
from tests.e2e.programs import (
    computing,
    computing_until_told,
    delete,
    end_well,
    ended,
    events,
    pod,
    probing,
    running,
    seen_uuids,
    tell_to_end,
)

pytestmark = pytest.mark.timeout(240)

FOUR_PODS = "deploy/simulated/examples/four-pods.yaml"
TWO_GPUS = "deploy/simulated/examples/two-gpus.yaml"
ONE_PODS_BYTES = 768 << 20


def swapped_out() -> list[int]:
    """How much has left each device so far."""
    return [device["swapping"]["out_bytes"] for device in scheduler_status()["devices"]]


def test_four_pods_on_two_gpus(simulated: Node) -> None:
    """The example's four pods of 768 MiB: two on each GPU of 1 GiB, never both at once, and every result is right.

    On a machine that is slow to move that memory a turn may be longer than all that one of them has to do.
    """
    since = simulated.clock_ns()
    kubectl("apply", "--namespace", TESTS, "--filename", FOUR_PODS)
    eventually("the example's pods end", lambda: get("job", "four-pods")["status"].get("completionTime"), 120)
    names = [each["metadata"]["name"] for each in get("pods")["items"] if each["metadata"]["name"].startswith("four")]
    reported = [events(name) for name in names]
    assert [each[-1]["right"] for each in reported] == [True] * 4, reported
    assert sorted(Counter(each[0]["device"] for each in reported).values()) == [2, 2]
    devices = simulated.spans(since)
    check_turns(devices)
    assert [len({span.client for span in spans}) for spans in devices] == [2, 2]
    kubectl("delete", "--namespace", TESTS, "--filename", FOUR_PODS)


def test_four_pods_on_two_gpus_take_turns(simulated: Node) -> None:
    """Each has the GPU several times; the memory of the one that waits is swapped out, and every result is right."""
    names = [f"turns-{number}" for number in range(4)]
    since, swapped = simulated.clock_ns(), swapped_out()
    try:
        apply(*(pod(name, computing_until_told()) for name in names))
        eventually("they take turns", lambda: simulated.took_turns(since, [2, 2]), TURN_SECONDS)
        for name in names:
            tell_to_end(name)
        end_well(names)
        check_turns(simulated.spans(since))
        for before, now in zip(swapped, swapped_out(), strict=True):
            assert now - before > ONE_PODS_BYTES // 2, (before, now)
    finally:
        delete(*names)


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

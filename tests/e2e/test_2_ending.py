"""Pods that were deleted, and whose programs run on for a while: they take no GPU from those that come."""

from __future__ import annotations

from itertools import count

import pytest

from tests.e2e.conftest import GPUS
from tests.e2e.kubectl import TESTS, Object, apply, eventually, kubectl
from tests.e2e.node import Node
from tests.e2e.programs import computing, delete, ended, pod, probing, running, seen_uuids

pytestmark = pytest.mark.timeout(240)

NAMES = [f"ending-{number}" for number in range(2 * GPUS)]
GRACE_SECONDS = 45
"""A program that is its container's first process does not hear SIGTERM: it ends after this time, or is killed."""


def patient(name: str) -> Object:
    """A pod that is long in ending."""
    made = pod(name, computing())
    made["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
    return made


def test_who_ends_takes_no_place(simulated: Node) -> None:
    """Two pods are on each GPU, and those on the last GPU end: the next pod gets that one, and not the first."""
    apply(*map(patient, NAMES))
    found = [running(name) for name in NAMES]
    last = simulated.uuids()[-1]
    leaving = [each.name for each in found if each.device == last]
    assert len(leaving) == 2
    numbers = count()

    def follows() -> bool:
        name = f"follower-{next(numbers)}"
        apply(pod(name, probing()))
        ended(name)
        seen = seen_uuids(name)
        delete(name)
        return seen == [last]

    try:
        assert not follows()
        kubectl("delete", "pod", "--namespace", TESTS, "--wait=false", *leaving)
        eventually("the next pod gets the GPU whose pods end", follows, 30)
    finally:
        # Those that come after this want the GPUs for themselves.
        delete(*NAMES)

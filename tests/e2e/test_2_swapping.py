"""Pods whose memory is swapped, as kubelet and the kernel see them."""

from __future__ import annotations

import pytest

from nvshare.simgpu.transfers import TO_DEVICE, TO_HOST
from tests.e2e.conftest import GPUS
from tests.e2e.kubectl import SCHEDULER, SYSTEM, Object, apply, eventually, get, kubectl, rolled_out, scheduler_status
from tests.e2e.node import Node, check_turns
from tests.e2e.programs import computing_until_told, delete, end_well, pod, running, tell_to_end

pytestmark = pytest.mark.timeout(300)

MIB = 1 << 20
LIMIT = "128Mi"
LIMIT_BYTES = 128 * MIB
"""A sixth of a program's memory on the GPU."""
SLOWEST_SECONDS = 100
"""For a few turns of a machine that copies 1 GB a second: the slower it swaps, the longer they are."""


def test_a_pod_does_not_pay_for_what_is_swapped(simulated: Node) -> None:
    """Its memory is charged to the scheduler: pods with a low limit are never near it, and their results are right.

    Until they end they have swapped ten times as much as they may use themselves.
    """
    names = ["low-limit-0", "low-limit-1", "low-limit-2"]
    moved = _moved_out_bytes()
    try:
        for name in names[:GPUS]:
            apply(pod(name, computing_until_told(), memory=LIMIT))
            running(name)
        eventually("each has a GPU for itself", lambda: _resident(names[:GPUS]), 20)
        before = {name: simulated.memory_bytes(client["pid"]) for name, client in _clients().items()}
        apply(pod(names[GPUS], computing_until_told(), memory=LIMIT))
        swapped: dict[str, Object] = {}

        def is_out() -> bool:
            out = {name: client for name, client in _clients().items() if client["swap"]["swapped_bytes"] > 500 * MIB}
            swapped.update((name, client) for name, client in out.items() if name in before)
            return bool(swapped)

        eventually("one of the two is swapped", is_out, SLOWEST_SECONDS)
        for name, client in swapped.items():
            grown = simulated.memory_bytes(client["pid"]) - before[name]
            print(f"{name}: {before[name] / MIB:.0f} MiB before, {grown / MIB:+.0f} MiB with its memory swapped")
            assert grown < 50 * MIB
        eventually(
            "ten limits of memory have left the GPUs",
            lambda: _moved_out_bytes() - moved > 10 * LIMIT_BYTES,
            SLOWEST_SECONDS,
        )
        _end_well(names)
    finally:
        delete(*names)


@pytest.mark.parametrize("direction", [TO_HOST, TO_DEVICE])
def test_the_scheduler_is_killed_in_a_transfer(simulated: Node, direction: str) -> None:
    """kill -9 while memory goes out, or comes in: turns go on, and every result is right."""
    names = ["in-transfer-0", "in-transfer-1", "in-transfer-2"]
    since = simulated.clock_ns()
    restarts = _scheduler_restarts()
    try:
        apply(*(pod(name, computing_until_told(), memory=LIMIT) for name in names))
        simulated.kill_in_transfer("nvshare-scheduler", direction, GPUS)
        eventually("turns go on", lambda: _moved_out_bytes() > 0, SLOWEST_SECONDS)
        _end_well(names)
        check_turns(simulated.spans(since))
        assert _scheduler_restarts() == restarts + 1
    finally:
        delete(*names)
        # Another pod: kubelet would let this one wait longer after each death.
        kubectl("rollout", "restart", "--namespace", SYSTEM, SCHEDULER)
        rolled_out()


def _end_well(names: list[str]) -> None:
    """They end when they are told to, with the right results."""
    for name in names:
        tell_to_end(name)
    end_well(names)


def _moved_out_bytes() -> int:
    """In all, since the scheduler started."""
    return sum(device["swapping"]["out_bytes"] for device in scheduler_status()["devices"])


def _clients() -> dict[str, Object]:
    """By the names of their pods."""
    return {client["pod"]: client for device in scheduler_status()["devices"] for client in device["clients"]}


def _resident(names: list[str]) -> bool:
    """Whether all memory of these pods is on the device, and nothing else has some."""
    clients = _clients()
    in_full = (each["swap"]["resident_bytes"] == each["footprint_bytes"] > 700 * MIB for each in clients.values())
    return set(clients) == set(names) and all(in_full)


def _scheduler_restarts() -> int:
    pods = get("pods", namespace=SYSTEM)["items"]
    statuses = [status for each in pods for status in each["status"]["containerStatuses"]]
    return sum(int(status["restartCount"]) for status in statuses if status["name"] == "scheduler")

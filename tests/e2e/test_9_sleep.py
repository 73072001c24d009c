"""A pod that sleeps when it is idle: under the chart's values, through restarts of what watches it, until its end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.deploy.rendering import CHART
from tests.e2e.conftest import GPUS, Helm
from tests.e2e.kubectl import SCHEDULER, SYSTEM, Object, apply, eventually, kubectl, parts, rolled_out, scheduler_status
from tests.e2e.node import Node
from tests.e2e.programs import BLOCK_BYTES, BLOCKS, Running, answering, ask, delete, is_untouched, pod, running

pytestmark = pytest.mark.timeout(240)

NAME = "sleepy"
VALUES = ("simulated.enabled=true", "scheduler.sleep=true", "scheduler.sleepAfter=2")
END_SECONDS = 10
PARTS = ("scheduler", "device-plugin", "node-agent")

_USED = """
import json, pynvml
pynvml.nvmlInit()
gpus = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
print(json.dumps([pynvml.nvmlDeviceGetMemoryInfo(gpu).used for gpu in gpus]))
"""


@pytest.fixture(scope="module")
def sleepy(emptied: Node, helm: Helm) -> Iterator[Running]:
    """The only pod, which answers when it is asked, and may sleep."""
    helm("install", str(CHART), "--create-namespace", *(word for value in VALUES for word in ("--set", value)))
    apply(pod(NAME, answering()))
    yield running(NAME, timeout=180)
    helm("uninstall", "--wait")


def test_an_idle_pod_sleeps(sleepy: Running) -> None:
    """Nothing of it is on a GPU, it lives, and what it had there is right when it is asked; then it sleeps again."""
    falls_asleep()
    answers_right(sleepy)
    falls_asleep()


def test_it_sleeps_on_while_all_parts_are_made_anew(sleepy: Running) -> None:
    """Scheduler, plugin and agent go and come: it is not woken by that, and the next scheduler can wake it."""
    falls_asleep()
    before = uids()
    kubectl("delete", "pods", "--namespace", SYSTEM, "--all")
    rolled_out()
    assert not before & uids()
    falls_asleep()
    (client,) = clients()
    assert client["sleeps"] == 1, "it was woken: the new scheduler has seen it asleep more than once"
    answers_right(sleepy)


def test_its_end(sleepy: Running) -> None:
    """Deleted while it sleeps it ends as any other, and nothing of it is left."""
    falls_asleep()
    assert scheduler_status()["host_memory_used_bytes"] >= BLOCKS * BLOCK_BYTES
    begin = time.monotonic()
    delete(NAME)
    took = time.monotonic() - begin
    print(f"a sleeping pod was gone after {took:.1f} s")
    assert took < END_SECONDS
    eventually("no client is left", lambda: not clients(), 5)
    eventually("no memory is left", lambda: scheduler_status()["host_memory_used_bytes"] == 0, 5)


def falls_asleep() -> None:
    """The pod's program is asleep, now or soon."""
    eventually("it is asleep", lambda: [client["state"] for client in clients()] == ["asleep"], 30)
    (client,) = clients()
    assert (client["pod"], client["footprint_bytes"]) == (NAME, BLOCKS * BLOCK_BYTES)
    used = json.loads(kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", "python3", "-c", _USED))
    assert used == [0] * GPUS


def answers_right(sleepy: Running) -> None:
    """Its answer wakes it, in the container that it had."""
    answered = ask(NAME)
    print(f"an answer out of sleep took {answered['end'] - answered['begin']:.1f} s")
    assert answered["wrong"] == 0
    assert is_untouched(sleepy)


def clients() -> list[Object]:
    """Those of all GPUs."""
    return [client for device in scheduler_status()["devices"] for client in device["clients"]]


def uids() -> set[str]:
    """All pods of nvshare."""
    return {each["metadata"]["uid"] for part in PARTS for each in parts(part)}

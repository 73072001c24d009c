"""Pods that sleep with more data than host memory takes: the chart's values, and files on the node's disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.rendering import CHART
from tests.e2e.conftest import GPUS, Helm
from tests.e2e.kubectl import SYSTEM, Object, apply, eventually, kubectl, parts, rolled_out, scheduler_status
from tests.e2e.node import Node
from tests.e2e.programs import BLOCK_BYTES, BLOCKS, Running, answering, ask, delete, is_untouched, pod, running

pytestmark = pytest.mark.timeout(300)

NAMES = [f"stored-{number}" for number in range(GPUS)]
"""One on each GPU."""
FOLDER = "/var/lib/nvshare-swap"
DATA_BYTES = BLOCKS * BLOCK_BYTES
"""Of each: host memory takes the data of both, but then has no room left for one that comes back."""
VALUES = (
    "simulated.enabled=true",
    "hostMemory=2GiB",
    "scheduler.sleep=true",
    "scheduler.sleepAfter=2",
    f"scheduler.swap.dir={FOLDER}",
    "scheduler.swap.size=4GiB",
)


@pytest.fixture(scope="module")
def pods(emptied: Node, helm: Helm) -> Iterator[dict[str, Running]]:
    """The only ones, which answer when they are asked, and may sleep."""
    helm("install", str(CHART), "--create-namespace", *(word for value in VALUES for word in ("--set", value)))
    apply(*(pod(name, answering()) for name in NAMES))
    yield {name: running(name, timeout=180) for name in NAMES}
    helm("uninstall", "--wait")
    emptied.remove(FOLDER)


def test_who_sleeps_longest_goes_to_the_disk(emptied: Node, pods: dict[str, Running]) -> None:
    """What is shown is there; asked, each has all that it had, and the next one's data goes to the disk."""
    name = one_is_stored()
    status = scheduler_status()
    assert (status["swap_dir"], status["swap_file_bytes"]) == (FOLDER, 4 << 30)
    stored = clients()[name]["swap"]["stored_bytes"]
    assert stored == DATA_BYTES <= status["swap_file_used_bytes"]
    assert emptied.unnamed_files(FOLDER, DATA_BYTES)
    answers_right(pods[name])
    assert one_is_stored() != name


def test_it_is_on_the_disk_while_the_scheduler_is_made_anew(emptied: Node, pods: dict[str, Running]) -> None:
    """The next scheduler is told of the file, and has it brought back."""
    name = one_is_stored()
    used, files = scheduler_status()["swap_file_used_bytes"], emptied.unnamed_files(FOLDER, DATA_BYTES)
    (before,) = (each["metadata"]["uid"] for each in parts("scheduler"))
    kubectl("delete", "pods", "--namespace", SYSTEM, "--selector", "app.kubernetes.io/name=nvshare-scheduler")
    rolled_out()
    assert [each["metadata"]["uid"] for each in parts("scheduler")] != [before]
    assert one_is_stored() == name
    assert (scheduler_status()["swap_file_used_bytes"], emptied.unnamed_files(FOLDER, DATA_BYTES)) == (used, files)
    answers_right(pods[name])


def test_its_end(emptied: Node, pods: dict[str, Running]) -> None:
    """Deleted while its data is on the disk, it leaves nothing there."""
    name = one_is_stored()
    files = emptied.unnamed_files(FOLDER, DATA_BYTES)
    delete(name)
    eventually("nothing is used", lambda: scheduler_status()["swap_file_used_bytes"] == 0, 60)
    eventually("the file is gone", lambda: not files.keys() & emptied.unnamed_files(FOLDER, DATA_BYTES).keys(), 60)
    (left,) = pods.keys() - {name}
    answers_right(pods[left])


def one_is_stored() -> str:
    """All are asleep, and the data of one is on the disk, now or soon: its name."""

    def stored() -> list[str]:
        shown = clients()
        if {client["state"] for client in shown.values()} != {"asleep"} or len(shown) != GPUS:
            return []
        return [name for name, client in shown.items() if client["swap"]["stored_bytes"]]

    eventually("the data of one is on the disk", lambda: len(stored()) == 1, 60)
    (name,) = stored()
    return name


def answers_right(program: Running) -> None:
    """Its answer wakes it, in the container that it had."""
    answered = ask(program.name)
    print(f"an answer of {program.name} took {answered['end'] - answered['begin']:.1f} s")
    assert answered["wrong"] == 0
    assert is_untouched(program)


def clients() -> dict[str, Object]:
    """Those of all GPUs, by the names of their pods."""
    return {client["pod"]: client for device in scheduler_status()["devices"] for client in device["clients"]}

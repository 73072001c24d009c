"""What an operator does to a node with running pods: an upgrade, a pod killed in its turn, the uninstallation."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nvshare.simgpu.turns import Span, turns
from tests.e2e.conftest import SIMULATED, VIRTUAL_DEVICES
from tests.e2e.kubectl import (
    PLUGIN,
    SCHEDULER,
    SYSTEM,
    allocatable,
    apply,
    are_offered,
    eventually,
    kubectl,
    rolled_out,
    scheduler_status,
)
from tests.e2e.node import TURN_SECONDS, Node, check_turns
from tests.e2e.programs import NEXT_IMAGE, Running, computing, delete, is_untouched, kill, pod, running

pytestmark = pytest.mark.timeout(300)

NEXT_VERSION = "99.0.0"


def take_turns(node: Node, pods: list[Running], clients: list[int]) -> None:
    """The pods run in the containers that they had, and take turns from now on."""
    since = node.clock_ns()
    eventually("the turns go on", lambda: node.took_turns(since, clients), TURN_SECONDS)
    check_turns(node.spans(since))
    assert all(is_untouched(each) for each in pods)


def test_upgrade_under_running_pods(simulated: Node, four: list[Running]) -> None:
    """Another version of library, plugin and scheduler is rolled out: running pods keep theirs, new ones get it."""
    before = simulated.libraries()
    for daemon_set in (SCHEDULER, PLUGIN):
        kubectl("set", "image", "--namespace", SYSTEM, daemon_set, f"*={NEXT_IMAGE}")
    rolled_out()
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)
    assert scheduler_status()["version"] == NEXT_VERSION
    versions = simulated.libraries()
    assert before <= versions
    assert NEXT_VERSION in {name.partition("-")[0] for name in versions}
    apply(pod("newer", computing()))
    newer = running("newer")
    mapped = kubectl(
        "exec", "--namespace", "nvshare-e2e", "newer", "--", "tail", "-c", "16", "/usr/lib/nvshare/libnvshare.so"
    )
    assert mapped == "another version\n"
    since = simulated.clock_ns()
    eventually(
        "old and new take turns",
        lambda: sorted(len(set(_clients(spans))) for spans in simulated.spans(since)) == [2, 3],
        60,
    )
    check_turns(simulated.spans(since))
    assert all(is_untouched(each) for each in [*four, newer])
    delete("newer")


def test_back_to_the_former_version(simulated: Node, four: list[Running]) -> None:
    """The way back is the same, and the folders of both versions stay for the pods that use them."""
    versions = simulated.libraries()
    kubectl("apply", "--filename", SIMULATED)
    rolled_out()
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)
    assert simulated.libraries() == versions
    take_turns(simulated, four, [2, 2])


def test_a_pod_that_is_killed_in_its_turn(simulated: Node, four: list[Running]) -> None:
    """Deleted by force while it holds its GPU: the next one runs within a second of its last kernel."""
    kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", "nvshare-ctl", "set", "quantum", "120")
    since = simulated.clock_ns()
    holder, gpu = _holder(simulated, four)
    eventually("the holder computes", lambda: simulated.spans(since)[gpu], 20)
    kill(holder.name)
    four.remove(holder)
    eventually("the next one runs", lambda: len(set(_clients(simulated.spans(since)[gpu]))) == 2, 30)
    spans = simulated.spans(since)[gpu]
    gaps = [after.start_ns - before.end_ns for before, after in pairwise(turns(spans))]
    assert len(gaps) == 1
    assert 0 <= gaps[0] < 1_000_000_000, f"{gaps[0] / 1e9:.3f} s"
    print(f"gap after a killed holder: {gaps[0] / 1e6:.1f} ms")
    kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", "nvshare-ctl", "set", "quantum", "2")


def test_uninstallation_leaves_running_pods_alive(simulated: Node, four: list[Running]) -> None:
    """Without nvshare the pods are there (holders go on, others wait); installed again, they take turns again.

    What was set counts again, too.
    """
    # In the middle of a hand-over nobody would hold.
    kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", "nvshare-ctl", "set", "quantum", "600")
    eventually("every GPU has a holder that may stay", _all_held, 30)
    # As the page says, and no error: else what follows it would not be run.
    kubectl("delete", "--cascade=foreground", "--filename", f"{SIMULATED}50-node-agent.yaml", timeout=120)
    kubectl("delete", "--ignore-not-found", "--filename", SIMULATED, timeout=120)
    eventually("no virtual device is left", lambda: allocatable() == 0, 60)
    since = simulated.clock_ns()
    eventually("the holders go on", lambda: all(simulated.spans(since)), 20)
    check_turns(simulated.spans(since))
    assert all(is_untouched(each) for each in four)
    kubectl("apply", "--filename", SIMULATED)
    rolled_out()
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)
    assert {device["quantum_seconds"] for device in scheduler_status()["devices"]} == {600}
    kubectl("exec", "--namespace", SYSTEM, SCHEDULER, "--", "nvshare-ctl", "set", "quantum", "2")
    take_turns(simulated, four, [sum(each.device == uuid for each in four) for uuid in simulated.uuids()])


def _clients(spans: list[Span]) -> list[int]:
    return [span.client for span in spans]


def _all_held() -> bool:
    states = [[client["state"] for client in device["clients"]] for device in scheduler_status()["devices"]]
    return all("holding" in each for each in states)


def _holder(node: Node, pods: list[Running]) -> tuple[Running, int]:
    """A pod that holds its GPU, and the GPU's number."""
    clients = [client for device in scheduler_status()["devices"] for client in device["clients"]]
    pid = next(client["pid"] for client in clients if client["state"] == "holding")
    uid = node.pod_uids([pid])[pid]
    holder = next(each for each in pods if each.uid == uid)
    return holder, node.uuids().index(holder.device)

"""Folders of the node that somebody removes under running containers, whose mounts of them are dead from then on."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import GPUS, SIMULATED, VIRTUAL_DEVICES
from tests.e2e.kubectl import SCHEDULER, SYSTEM, apply, are_offered, eventually, kubectl, restarts, rolled_out
from tests.e2e.node import LIBRARIES, POD, TURN_SECONDS, Node, check_turns
from tests.e2e.programs import (
    VERSION,
    computing_until_told,
    delete,
    end_well,
    ended,
    kill_all_but,
    pod,
    probing,
    running,
    tell_to_end,
)

pytestmark = pytest.mark.timeout(300)

KUBELET_DIR = "/var/lib/kubelet/device-plugins"
# Not below /var: a link to /run there would lead to the container's own.
RUN_DIR = "/run/nvshare"


@pytest.fixture(scope="module")
def alone(simulated: Node) -> Node:
    """The node with the simulated stack on it and no pods that use it."""
    kill_all_but(POD)
    kubectl("apply", "--filename", SIMULATED)
    rolled_out()
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)
    return simulated


def test_the_librarys_folder(alone: Node) -> None:
    """It is there again with nobody's help, and new pods have it."""
    for folder in libraries(alone):
        alone.remove(f"{LIBRARIES}/{folder}")
    eventually("it is there again", lambda: libraries(alone), 20)
    apply(pod("after-the-library", ["test", "-s", "/usr/lib/nvshare/libnvshare.so"]))
    assert ended("after-the-library") == "Succeeded"
    delete("after-the-library")


def test_kubelets_folder(alone: Node) -> None:
    """The plugin's container is made anew, and sees the folder that a restarted kubelet uses."""
    before = restarts("nvshare-device-plugin")
    alone.remove(KUBELET_DIR)
    eventually("the plugin was made anew", lambda: restarts("nvshare-device-plugin") > before, 60)
    alone.kill("kubelet")
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 90)
    works("after-kubelet")


def test_the_run_directory(alone: Node) -> None:
    """Pods that are connected go on taking turns and end well; then the scheduler is made anew, for new pods."""
    names = [f"connected-{number}" for number in range(2 * GPUS)]
    apply(*(pod(name, computing_until_told()) for name in names))
    for name in names:
        running(name)
    before = restarts("nvshare-scheduler")
    alone.remove(RUN_DIR)
    eventually("the scheduler says so", lambda: "run directory is lost" in log_of_the_scheduler(), 20)
    since = alone.clock_ns()
    eventually("they take turns", lambda: alone.took_turns(since, [2] * GPUS), TURN_SECONDS)
    check_turns(alone.spans(since))
    assert restarts("nvshare-scheduler") == before
    for name in names:
        tell_to_end(name)
    end_well(names)
    delete(*names)
    eventually("the scheduler was made anew", lambda: restarts("nvshare-scheduler") > before, 60)
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 90)
    rolled_out()
    works("after-the-run-directory")


def libraries(node: Node) -> set[str]:
    """The folders of this version's library."""
    return {name for name in node.libraries() if name.startswith(f"{VERSION}-")}


def works(name: str) -> None:
    """A new pod gets a GPU, and ends well."""
    apply(pod(name, probing()))
    assert ended(name) == "Succeeded"
    delete(name)


def log_of_the_scheduler() -> str:
    """What the scheduler's container has said."""
    return kubectl("logs", "--namespace", SYSTEM, SCHEDULER)

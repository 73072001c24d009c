"""From version 0.2.0, which knows nothing of swapping, to this one and back, under pods that run.

Its parts are compiled from this repository's history (``former_version/``). Its manifests are its own, but for the
image's name and the simulated GPUs' size, which are the node's hardware.
"""

from __future__ import annotations

import subprocess

import pytest
import yaml

from tests.e2e.conftest import FOLDER, GPUS, SIMULATED, VIRTUAL_DEVICES
from tests.e2e.kubectl import (
    PLUGIN,
    ROOT,
    SCHEDULER,
    Object,
    apply,
    are_offered,
    eventually,
    kubectl,
    rolled_out,
    scheduler_status,
)
from tests.e2e.node import POD, TURN_SECONDS, Node, check_turns
from tests.e2e.programs import (
    FORMER_IMAGE,
    Running,
    computing_until_told,
    delete,
    end_well,
    is_untouched,
    kill_all_but,
    pod,
    running,
    tell_to_end,
)

pytestmark = pytest.mark.timeout(400)

COMMIT = (FOLDER / "former_version" / "commit").read_text().strip()
OLD = [f"old-{number}" for number in range(2 * GPUS)]
NEW = [f"new-{number}" for number in range(GPUS)]


@pytest.fixture(scope="module")
def former(simulated: Node) -> Node:
    """The node with the stack of the former version on it."""
    kill_all_but(POD)
    install_former()
    return simulated


@pytest.fixture(scope="module")
def old(former: Node) -> list[Running]:
    """Two pods on each GPU that began with the former version."""
    apply(*(pod(name, computing_until_told()) for name in OLD))
    return [running(name) for name in OLD]


def test_upgrade_from_a_version_without_swapping(former: Node, old: list[Running]) -> None:
    """Pods that have the former library take turns with new ones, which leave the GPU for them."""
    since = former.clock_ns()
    eventually("the old ones take turns", lambda: former.took_turns(since, [2] * GPUS), TURN_SECONDS)
    check_turns(former.spans(since))
    kubectl("apply", "--filename", SIMULATED)
    rolled_out()
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)
    assert {client["backend"] for client in _clients()} == {"managed"}
    apply(*(pod(name, computing_until_told()) for name in NEW))
    new = [running(name) for name in NEW]
    since = former.clock_ns()
    eventually("old and new take turns", lambda: former.took_turns(since, [3] * GPUS), TURN_SECONDS)
    check_turns(former.spans(since))
    swapped: set[str] = set()
    eventually("the new ones were swapped", lambda: len(_see_swapped(swapped)) == GPUS, 30)
    assert all(is_untouched(each) for each in [*old, *new])


def test_back_to_a_version_without_swapping(former: Node, old: list[Running]) -> None:
    """The way back is the same, and in the end every result is right: no memory was lost, nobody lacked any."""
    install_former()
    since = former.clock_ns()
    eventually("old and new take turns", lambda: former.took_turns(since, [3] * GPUS), TURN_SECONDS)
    check_turns(former.spans(since))
    for name in (*OLD, *NEW):
        tell_to_end(name)
    end_well([*OLD, *NEW])
    delete(*OLD, *NEW)


def install_former() -> None:
    """Installs the former version as its README says, on nodes that have its image; skips where its history is not."""
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"], cwd=ROOT, check=False, capture_output=True
    )
    if known.returncode:
        pytest.skip("this clone's history does not reach back to version 0.2.0")
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "nvshare" / "values.yaml").read_text())
    devices = values["simulated"]["devices"]
    for name in _of_history("ls-tree", "--name-only", COMMIT, SIMULATED).split():
        if name.endswith(".yaml"):
            text = _of_history("show", f"{COMMIT}:{name}")
            text = text.replace("nvshare/nvshare:0.2.0", FORMER_IMAGE).replace("2x16GiB", devices)
            kubectl("apply", "--filename", "-", stdin=text)
    rolled_out((SCHEDULER, PLUGIN))
    eventually("the devices are there", lambda: are_offered(VIRTUAL_DEVICES), 60)


def _of_history(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _see_swapped(devices: set[str]) -> set[str]:
    """With those added of which a client has memory off the device now; what was never written is copied nowhere."""
    for device in scheduler_status()["devices"]:
        if any(client["swap"] and client["swap"]["swapped_bytes"] for client in device["clients"]):
            devices.add(device["uuid"])
    return devices


def _clients() -> list[Object]:
    return [client for device in scheduler_status()["devices"] for client in device["clients"]]

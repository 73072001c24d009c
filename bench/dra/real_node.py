"""The chart for claims on the one-node cluster that KUBECONFIG names, as the tests install it, with simulated GPUs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.deploy.rendering import CHART, RENDER
from tests.e2e.claims import devices, prepared, settings
from tests.e2e.conftest import GPUS, RELEASE
from tests.e2e.kubectl import SYSTEM, TESTS, apply, eventually, kubectl, rolled_out
from tests.e2e.node import POD, Node, start_node_pod
from tests.e2e.programs import kill_all_but


@contextmanager
def installed(*values: str) -> Iterator[Node]:
    """The node while its GPUs can be claimed, with these values of the chart besides; nothing is left of it after."""
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TESTS}})
    eventually("pods can be made", lambda: kubectl("get", "serviceaccount", "default", "--namespace", TESTS), 30)
    node = start_node_pod()
    try:
        _helm("install", str(CHART), "--create-namespace", *settings(*values))
        rolled_out()
        eventually("the GPUs can be claimed", lambda: len(devices()) == GPUS, 90)
        yield node
    finally:
        kill_all_but(POD)
        eventually("no claim is prepared", lambda: not prepared(node), 120)
        _helm("uninstall", "--wait")
        for namespace in (TESTS, SYSTEM):
            kubectl("delete", "namespace", namespace, "--ignore-not-found", timeout=120)


def _helm(command: str, *arguments: str) -> None:
    program = RENDER["find_helm"]()
    assert program, "run make helm"
    subprocess.run(
        [program, command, RELEASE, *arguments, "--namespace", SYSTEM], check=True, stdout=subprocess.DEVNULL
    )

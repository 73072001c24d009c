"""Clients in containers that kubelet gave other GPUs: they stop nobody, and are sent away."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nvshare import scheduler_process
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.kubelet import Kubelet, Node, answering
from tests.scheduler.wire_client import DEVICE, OTHER_DEVICE, TIMEOUT_SECONDS, ClosedError, Scheduler, WireClient

A = "GPU-6e767368-6172-6500-0000-000000000001"
B = "GPU-6e767368-6172-6500-0000-000000000002"
HUGE_GRANT = (1 << 63) - 1
REFUSED = f"kubelet gave this container other GPUs than {A}"

Spawn = Callable[..., ClientProcess]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """On which the test's schedulers run."""
    node = Node(tmp_path)
    command = scheduler_process.command
    monkeypatch.setattr(scheduler_process, "command", lambda *arguments: node.command(command(*arguments)))
    return node


@pytest.fixture
def spawn(node: Node) -> Iterator[Spawn]:
    """Starts processes in containers of the node: of pod n/POD the container ``c``, unless it is named."""
    with ExitStack() as stack:

        def begin(pod: str, container: str = "c") -> ClientProcess:
            process = stack.enter_context(ClientProcess())
            node.put(process.process.pid, "n", pod, container)
            return process

        yield begin


@pytest.fixture
def kubelet(run_dir: RunDir) -> Iterator[Kubelet]:
    """One that gave GPU A to pod ``owner`` and B to pod ``stranger``."""
    kubelet = Kubelet()
    kubelet.held["n", "owner", "c"] = [f"{A}__1"]
    kubelet.held["n", "stranger", "c"] = [f"{B}__1"]
    with answering(kubelet, run_dir.root / "kubelet.sock"):
        yield kubelet


@pytest.fixture
def scheduler(serve: Callable[..., Scheduler], node: Node, kubelet: Kubelet, run_dir: RunDir) -> Scheduler:
    """One that knows what kubelet says."""
    scheduler = serve(
        "--policy=exclusive", "--metrics-address=127.0.0.1:0", f"--pod-resources={run_dir.root / 'kubelet.sock'}"
    )
    poll_until(lambda: len(scheduler.status().devices) == 2, "kubelet's word has come", TIMEOUT_SECONDS)
    return scheduler


def is_sent_away(client: WireClient) -> bool:
    """Whether the connection ended without anything that the client did; waits for it."""
    client.raw.wait_closed()
    return True


def test_a_stranger_that_claims_to_hold_stops_nobody(scheduler: Scheduler, spawn: Spawn) -> None:
    """However often it says so: the GPU's owner is granted at once, though the stranger never leaves."""
    stranger, owner = spawn("stranger"), spawn("owner").connect(scheduler).register()
    for _ in range(3):
        stranger.connect(scheduler).send(wire.Register(DEVICE, 1, state=wire.State.HOLDING, grant=HUGE_GRANT))
        owner.send(wire.LockReleased(owner.lock()))

"""What is shown of a client: what the kernel says counts more than what the client says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nvshare.scheduler.pods.cgroups import Place
from nvshare.scheduler.pods.description import Description, Hints, describe
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.pods.peer import Peer
from tests.polling import poll_until

CLAIM = Hints(pid=7, command="claimed", namespace="space", pod="pod-1")


def test_the_kernel_knows() -> None:
    """With a pid from the kernel neither the claimed pid nor name nor command is believed."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        expected = Description(process.pid, "sleep 1000", Identity(), 0, process.pid, "")
        # Right after exec the kernel shows no arguments for a moment.
        poll_until(lambda: describe(Peer(process.pid, 0, outside_pods=True), CLAIM) == expected, f"it is {expected}")
        process.kill()


def test_the_kernel_does_not_know() -> None:
    """A peer in a hidden pid namespace is shown as it says, and as a hint."""
    assert describe(Peer(0, 0, outside_pods=False), CLAIM) == Description(
        7, "claimed", Identity("space", "pod-1", source=Source.HINT), 0
    )


def test_nothing_is_said() -> None:
    """A version 1 client in a hidden pid namespace and outside a pod says nothing of itself."""
    assert describe(Peer(0, 0, outside_pods=False), Hints()) == Description(0, "", Identity(), 0)


UID = "d8e2a9b4-0c51-4f5e-9c7e-3b1f0a6d2e11"
ID = "8" * 64


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node where process 42 is in container ``main`` of pod ``space/pod-2``."""
    process = tmp_path / "proc" / "42"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(f"0::/kubepods/burstable/pod{UID}/{ID}\n")
    (process / "cmdline").write_bytes(b"python\0train.py\0")
    (process / "status").write_text("Name:\tpython\nNSpid:\t42\t7\n")
    (tmp_path / "log" / "pods" / f"space_pod-2_{UID}" / "main").mkdir(parents=True)
    return tmp_path


def test_in_a_pod(node: Path) -> None:
    """The kernel's container with kubelet's names for it, not the ones that were claimed."""
    shown = describe(Peer(42, 0, outside_pods=False), CLAIM, node / "proc", node / "log")
    cgroup = (node / "proc" / "42" / "cgroup").read_text()
    identity = Identity("space", "pod-2", "main", Source.KERNEL)
    assert shown == Description(42, "python train.py", identity, 0, 7, cgroup, Place(UID, ID))


def test_in_a_cgroup_whose_name_is_no_text(node: Path) -> None:
    """A container's root may call those below its own as it likes: that leads out of no pod."""
    with (node / "proc" / "42" / "cgroup").open("wb") as file:
        file.write(f"0::/kubepods/burstable/pod{UID}/{ID}/".encode() + b"\xff\n")
    shown = describe(Peer(42, 0, outside_pods=False), CLAIM, node / "proc", node / "log")
    assert (shown.own_pid, shown.place) == (7, Place(UID, ID))
    assert shown.identity == Identity("space", "pod-2", "main", Source.KERNEL)


def test_in_a_pod_without_names(node: Path) -> None:
    """Where kubelet's folders are not to be seen the pod has a uid; a claimed name is still not believed."""
    assert describe(Peer(42, 0, outside_pods=False), CLAIM, node / "proc", node).identity == Identity(
        pod=UID, source=Source.KERNEL
    )


def test_outside_a_pod(node: Path) -> None:
    """A process of a session is in no pod, whatever it says."""
    (node / "proc" / "42" / "cgroup").write_text("0::/user.slice/session-1.scope\n")
    assert describe(Peer(42, 0, outside_pods=True), CLAIM, node / "proc", node / "log").identity == Identity()


def test_process_that_is_gone() -> None:
    """Its own word is better than none."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert describe(Peer(process.pid, os.getuid(), outside_pods=None), CLAIM).command == "claimed"

"""Who a client is shown to be: the kernel's word before its own."""

from __future__ import annotations

import os
import subprocess

from nvshare.scheduler.identity import Description, Identity, Introduction, Source, describe
from nvshare.scheduler.peer import Peer
from tests.polling import poll_until

CLAIM = Introduction(pid=7, command="claimed", namespace="space", pod="pod-1")


def test_the_kernel_knows() -> None:
    """With a pid from the kernel neither the claimed pid nor name nor command is believed."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        expected = Description(process.pid, "sleep 1000", Identity())
        # Right after exec the kernel shows no arguments for a moment.
        poll_until(lambda: describe(Peer(process.pid, 0, outside_pods=True), CLAIM) == expected, f"it is {expected}")
        process.kill()


def test_the_kernel_does_not_know() -> None:
    """A peer in a hidden pid namespace is shown as it says, and as a hint."""
    assert describe(Peer(0, 0, outside_pods=False), CLAIM) == Description(
        7, "claimed", Identity("space", "pod-1", source=Source.HINT)
    )


def test_nothing_is_said() -> None:
    """A version 1 client in a hidden pid namespace and outside a pod says nothing of itself."""
    assert describe(Peer(0, 0, outside_pods=False), Introduction()) == Description(0, "", Identity())


def test_process_that_is_gone() -> None:
    """Its own word is better than none."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert describe(Peer(process.pid, os.getuid(), outside_pods=None), CLAIM).command == "claimed"

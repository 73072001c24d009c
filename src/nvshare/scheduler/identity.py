"""From a peer, and what it says of itself, to the description that people see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from nvshare.scheduler.peer import Peer, command_of


class Source(Enum):
    """Where an identity comes from."""

    NONE = ""
    """Not in a pod, as far as is known."""
    HINT = "hint"
    """From what the client said of itself."""
    KERNEL = "kernel"
    """From the process's cgroup."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client is in the cluster; empty outside one."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    source: Source = Source.NONE


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a client says of itself: hints, to be believed only where the kernel gives no answer."""

    pid: int = 0
    command: str = ""
    namespace: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """What is shown of a client."""

    pid: int
    command: str
    identity: Identity


Describe = Callable[[Peer, Introduction], Description]
"""Runs in a worker thread, once for each client; may read files and raises nothing."""


def describe(peer: Peer, introduction: Introduction) -> Description:
    """The kernel's answer; the client's own words where its pid namespace hides it."""
    known = hinted(peer, introduction)
    return replace(known, command=command_of(peer.pid) or known.command) if peer.pid else known


def hinted(peer: Peer, introduction: Introduction) -> Description:
    """The same without reading any file."""
    if peer.pid or not introduction.pod:
        identity = Identity()
    else:
        identity = Identity(introduction.namespace, introduction.pod, source=Source.HINT)
    return Description(peer.pid or introduction.pid, introduction.command, identity)

"""From a peer, and what it says of itself, to the description that people see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from nvshare.paths import HOST_LOGS
from nvshare.scheduler import cgroups
from nvshare.scheduler.peer import PROC, Peer, command_of
from nvshare.scheduler.pod_names import names_of


class Source(Enum):
    """Where an identity comes from."""

    NONE = ""
    """Not in a pod, as far as is known."""
    HINT = "hint"
    """From what the client said of itself."""
    KERNEL = "kernel"
    """From the process's cgroup."""
    KUBELET = "kubelet"
    """From kubelet's list of allocated devices: of a container, whatever runs in it."""


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


def describe(peer: Peer, introduction: Introduction, proc: Path = PROC, logs: Path = HOST_LOGS) -> Description:
    """The kernel's answer; the client's own words where its pid namespace hides it.

    The names of a pod and a container are those that kubelet gave to their logs. A pod whose names can't be found out
    so is shown by its uid.
    """
    known = hinted(peer, introduction)
    if not peer.pid:
        return known
    return replace(known, command=command_of(peer.pid, proc) or known.command, identity=_identity(peer.pid, proc, logs))


def hinted(peer: Peer, introduction: Introduction) -> Description:
    """The same without reading any file."""
    if peer.pid or not introduction.pod:
        identity = Identity()
    else:
        identity = Identity(introduction.namespace, introduction.pod, source=Source.HINT)
    return Description(peer.pid or introduction.pid, introduction.command, identity)


def _identity(pid: int, proc: Path, logs: Path) -> Identity:
    try:
        place = cgroups.place_of((proc / str(pid) / "cgroup").read_text())
    except (OSError, UnicodeDecodeError):
        return Identity()
    if place is None:
        return Identity()
    names = names_of(place, logs)
    if names is None:
        return Identity(pod=place.pod_uid, source=Source.KERNEL)
    return Identity(names.namespace, names.pod, names.container, Source.KERNEL)

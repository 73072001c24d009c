"""What is shown of a client: found out about its process, else what the client said of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nvshare.paths import HOST_LOGS
from nvshare.scheduler.pods import cgroups
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.pods.peer import PROC, Peer, command_of
from nvshare.scheduler.pods.pod_names import NamesOf, names_of


@dataclass(frozen=True, slots=True)
class Hints:
    """What a client says of itself; used only where the kernel gives no answer."""

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


Describe = Callable[[Peer, Hints], Description]
"""Runs in a worker thread, once for each client; may read files and raises nothing."""


def describe(
    peer: Peer, hints: Hints, proc: Path = PROC, logs: Path = HOST_LOGS, names: NamesOf = names_of
) -> Description:
    """What the kernel says; what the client says where its pid namespace hides it.

    The names of a pod and a container are those that kubelet gave to their logs. A pod whose names are not found there
    is shown by its uid.
    """
    known = hinted(peer, hints)
    if not peer.pid:
        return known
    return replace(
        known, command=command_of(peer.pid, proc) or known.command, identity=_identity(peer.pid, proc, logs, names)
    )


def hinted(peer: Peer, hints: Hints) -> Description:
    """The same without reading any file."""
    unknown = peer.pid or not hints.pod
    identity = Identity() if unknown else Identity(hints.namespace, hints.pod, source=Source.HINT)
    return Description(peer.pid or hints.pid, hints.command, identity)


def _identity(pid: int, proc: Path, logs: Path, names_of: NamesOf) -> Identity:
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

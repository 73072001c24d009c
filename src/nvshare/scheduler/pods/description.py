"""What is shown of a client: found out about its process, else what the client said of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nvshare.paths import HOST_LOGS
from nvshare.scheduler.pods import cgroups
from nvshare.scheduler.pods.cgroups import Place
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.pods.peer import PROC, Peer, command_of
from nvshare.scheduler.pods.pod_names import NamesOf, names_of
from nvshare.scheduler.pods.processes import cgroups_of


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
    uid: int = -1
    """As the kernel says; -1: not known."""
    own_pid: int = 0
    """As the process itself and its neighbours see it; 0: not known."""
    namespaces: str | None = None
    """The same text for processes that see each other: empty in this one's pid namespace. None: not known."""
    place: Place | None = None
    """The container in which the kernel keeps it; None: in no pod, or not known."""

    def fields(self) -> dict[str, int | str]:
        """Who it is, for a line of the log: its process, and in a pod the names by which kubectl finds it."""
        identity = self.identity
        names = {"namespace": identity.namespace, "pod": identity.pod, "container": identity.container}
        return {"pid": self.pid, "command": self.command, **{part: name for part, name in names.items() if name}}


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
    own_pid, namespaces = _pids(peer.pid, proc)
    place = _place(peer.pid, proc)
    return replace(
        known,
        command=command_of(peer.pid, proc) or known.command,
        identity=Identity() if place is None else _identity(place, logs, names),
        own_pid=own_pid,
        namespaces=namespaces,
        place=place,
    )


def hinted(peer: Peer, hints: Hints) -> Description:
    """The same without reading any file."""
    unknown = peer.pid or not hints.pod
    identity = Identity() if unknown else Identity(hints.namespace, hints.pod, source=Source.HINT)
    return Description(peer.pid or hints.pid, hints.command, identity, peer.uid)


def _pids(pid: int, proc: Path) -> tuple[int, str | None]:
    """The pid by which a process knows itself, and the text that it shares with those who see it; see Description.

    The kernel shows a process's namespaces only to who may trace it, but its pids in all of them, and its cgroup, to
    everybody.
    """
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
        pids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
        namespaces = cgroups_of(proc / str(pid)) if len(pids) > 1 else ""
        return int(pids[-1]), namespaces
    except (OSError, StopIteration, ValueError, IndexError):
        return 0, None


def _place(pid: int, proc: Path) -> Place | None:
    try:
        return cgroups.place_of(cgroups_of(proc / str(pid)))
    except OSError:
        return None


def _identity(place: Place, logs: Path, names_of: NamesOf) -> Identity:
    names = names_of(place, logs)
    if names is None:
        return Identity(pod=place.pod_uid, source=Source.KERNEL)
    return Identity(names.namespace, names.pod, names.container, Source.KERNEL)

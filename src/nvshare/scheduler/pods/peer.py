"""Who is at the other end of a client connection, as the kernel says it."""

from __future__ import annotations

import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_POD_CGROUP = re.compile(r"kubepods|pod[0-9a-f]{8}[-_][0-9a-f]{4}[-_]")
"""In the path of every pod's cgroup; the second form is what is left of it in another pod's cgroup namespace."""
_NAMESPACE_PIDS = re.compile(r"^NSpid:\t(.*)$", re.MULTILINE)
_POD_FOLDER = "*pod????????[-_]????[-_]*"
"""The folder of every pod's cgroup."""
_INITIAL_NAMESPACES = {"pid": "pid:[4026531836]", "cgroup": "cgroup:[4026531835]"}
"""The kernel's own numbers for the namespaces from which everything can be seen."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected. ``pid`` is 0 when it lives in a pid namespace that this process can't see into."""

    pid: int
    uid: int
    outside_pods: bool | None
    """Looked at for root only (False for others); None: it ended before it could be looked at."""


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connected Unix socket. Call it early: what /proc says is gone when the process is."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid, outside_pods=uid == 0 and pid != 0 and is_outside_pods(pid, PROC))


def may_command(peer: Peer) -> bool:
    """Whether version 1 commands of a peer are honoured: it is root, outside any pod.

    nvsharectl ends as soon as it has written its command. If that was too early to look at it, it is honoured where the
    node has no pods.
    """
    if peer.uid != 0 or peer.pid == 0:
        return False
    return has_no_pods(PROC, _CGROUPS) if peer.outside_pods is None else peer.outside_pods


def is_outside_pods(pid: int, proc: Path) -> bool | None:
    """True if the process shares this one's pid namespace and no pod's cgroup holds it; None if it has ended.

    A process of this very cgroup (a shell in the scheduler's own container) counts as outside.
    """
    process = proc / str(pid)
    try:
        # Its pids, one for each namespace from this one down to its own. (The link ns/pid, which would say it too, can
        # only be read with the capability SYS_PTRACE, which a pod does not have.)
        pids = _NAMESPACE_PIDS.search((process / "status").read_text(errors="replace"))
        if pids is None or len(pids[1].split()) != 1:
            return False
        theirs = (process / "cgroup").read_text()
        return not _POD_CGROUP.search(theirs) or theirs == (proc / "self" / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return False


def has_no_pods(proc: Path, cgroups: Path) -> bool:
    """True if this process sees all of the node's cgroups and none is a pod's."""
    try:
        if any((proc / "self" / "ns" / kind).readlink() != Path(name) for kind, name in _INITIAL_NAMESPACES.items()):
            return False
        return not any(cgroups.rglob(_POD_FOLDER))
    except OSError:
        return False


def command_of(pid: int, proc: Path) -> str:
    """The command line of a process, arguments separated by spaces; empty when it can't be read."""
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()[:4096]
    except OSError:
        return ""
    text = raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "�" for character in text)

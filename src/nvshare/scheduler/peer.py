"""Who is at the other end of a client connection, as the kernel says it."""

from __future__ import annotations

import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
_PROC = Path("/proc")
_POD_CGROUP = re.compile(r"kubepods|pod[0-9a-f]{8}[-_][0-9a-f]{4}[-_]")
"""Of every pod's cgroup; the second form is what is left of it when it is seen from another pod's cgroup namespace."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected. ``pid`` is 0 when it lives in a pid namespace that this process can't see into."""

    pid: int
    uid: int
    may_command: bool
    """It is root, outside any pod: version 1 commands of it are honoured."""


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connected Unix socket. Call it early: what /proc says is gone when the process is."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid, may_command=uid == 0 and pid != 0 and is_outside_pods(pid, _PROC))


def is_outside_pods(pid: int, proc: Path) -> bool:
    """True if the process shares this one's pid namespace and no pod's cgroup holds it.

    A process of this very cgroup (a shell in the scheduler's own container) counts as outside. A process that has ended
    already can't be judged: False.
    """
    process = proc / str(pid)
    try:
        if (process / "ns" / "pid").readlink() != (proc / "self" / "ns" / "pid").readlink():
            return False
        theirs = (process / "cgroup").read_text()
        return not _POD_CGROUP.search(theirs) or theirs == (proc / "self" / "cgroup").read_text()
    except OSError:
        return False


def command_of(pid: int) -> str:
    """The command line of a process, arguments separated by spaces; empty when it can't be read."""
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()[:4096]
    except OSError:
        return ""
    text = raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "�" for character in text)

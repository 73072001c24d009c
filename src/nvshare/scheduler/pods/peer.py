"""Who is at the other end of a client connection, as the kernel says it."""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from nvshare.scheduler.pods.processes import cgroups_of, is_ending

_COMMAND_BYTES = 256
"""Enough to know a program by; its arguments may be 2 MiB, and a status shows thousands of clients."""
_CREDENTIALS = struct.Struct("3i")
PROC = Path("/proc")
_POD_CGROUP = re.compile(r"kubepods|pod[0-9a-f]{8}[-_][0-9a-f]{4}[-_]")
"""In the path of every pod's cgroup; the second form is what is left of it in another pod's cgroup namespace."""
_NAMESPACE_PIDS = re.compile(r"^NSpid:\t(.*)$", re.MULTILINE)
_INODE = 6
"""Of a line of ``net/unix``: the number of the socket."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected. ``pid`` is 0 when it lives in a pid namespace that this process can't see into."""

    pid: int
    uid: int
    outside_pods: bool | None
    """Looked at for root only (False for others); None: it ended before it could be looked at."""
    accepted_at: float = 0.0
    """In seconds of CLOCK_BOOTTIME."""
    socket_inode: int = 0
    """Of this end of its connection."""
    at_host_path: bool = False
    """It connected at the path of the original, not at the one that containers get from us."""


def peer_of(connection: socket.socket, *, at_host_path: bool = False) -> Peer:
    """The peer of a connected Unix socket. Call it early: what /proc says is gone when the process is."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    accepted_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    outside = uid == 0 and pid != 0 and is_outside_pods(pid, PROC)
    return Peer(pid, uid, outside, accepted_at, os.fstat(connection.fileno()).st_ino, at_host_path)


def may_command(peer: Peer) -> bool:
    """Whether version 1 commands of a peer are honoured, while it is connected: it is root, outside any pod.

    The original's nvsharectl ends as soon as it has written its command, mostly before it can be looked at. It is
    honoured then if it came to the original's path, which no container gets from us, from the network that the machine
    itself has: containers have one of their own, unless somebody gave them that one. The kernel keeps the connection
    in the peer's network for as long as this end is open.
    """
    if peer.uid != 0 or peer.pid == 0:
        return False
    if peer.outside_pods is None:
        return peer.at_host_path and is_in_network_of((1, os.getpid()), peer.socket_inode, PROC)
    return peer.outside_pods


def is_in_network_of(pids: tuple[int, ...], socket_inode: int, proc: Path) -> bool:
    """Whether the network namespace of one of these processes has this Unix socket.

    An accepted socket belongs to the namespace of whoever connected. Everybody may read which ones there are.
    """
    wanted = str(socket_inode)
    for pid in pids:
        try:
            lines = (proc / str(pid) / "net" / "unix").read_text(errors="replace").splitlines()
        except OSError:
            continue
        if any(wanted in line.split(maxsplit=_INODE + 1)[_INODE : _INODE + 1] for line in lines):
            return True
    return False


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
        theirs = cgroups_of(process)
        if is_ending(pid, proc):
            return None  # Version 1 of the cgroups may say by now that it is in none.
        return not _POD_CGROUP.search(theirs) or theirs == cgroups_of(proc / "self")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return False


def command_of(pid: int, proc: Path) -> str:
    """The command line of a process, arguments separated by spaces; empty when it can't be read.

    A long one is cut, and ends with an ellipsis.
    """
    try:
        with (proc / str(pid) / "cmdline").open("rb") as file:
            raw = file.read(_COMMAND_BYTES + 1)
    except OSError:
        return ""
    text = raw[:_COMMAND_BYTES].rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    shown = "".join(character if character.isprintable() else "�" for character in text)
    return shown + "…" if len(raw) > _COMMAND_BYTES else shown

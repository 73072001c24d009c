"""Which processes may see each other's memory: those of one container, and outside of any those of one user."""

from __future__ import annotations

import re
from pathlib import Path

from nvshare.scheduler.pods.peer import PROC, Peer
from nvshare.scheduler.pods.processes import cgroups_of

_CONTAINER = re.compile(r"^.*?[0-9a-f]{64}(?![0-9a-f])")
"""The path down to the first folder that a container runtime has made; what is below it, the container names itself."""


def belonging_of(peer: Peer, proc: Path = PROC) -> str:
    """The same text for processes that belong together, as the kernel says; empty: it can't say of this one.

    A container counts with its place in the hierarchy: elsewhere a user may be allowed to make folders of any name.
    """
    if not peer.pid:
        return ""
    try:
        process = proc / str(peer.pid)
        cgroup = cgroups_of(process)
        status = (process / "status").read_text(errors="replace")
    except OSError:
        return ""
    paths = [line.split(":", 2)[-1] for line in cgroup.splitlines()]
    if container := next((found[0] for path in paths if (found := _CONTAINER.match(path))), ""):
        return f"container {container}"
    pids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    if len(pids) == 1:
        return f"user {peer.uid}"
    # In a pid namespace of its own without a runtime that is known: nobody is with it but those of its own cgroup.
    return f"user {peer.uid} in {sorted(paths)}" if pids else ""

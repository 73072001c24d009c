"""What looks after this process's container: the parent process, where it is one outside of the container.

When that process dies (containerd's shim, CRI-O's conmon), the container's processes can live on, but the runtime
holds the container for dead and starts another one in its place. From a pid namespace of its own it is not seen.
"""

from __future__ import annotations

import os
from pathlib import Path

from nvshare.scheduler.pods.cgroups import place_of
from nvshare.scheduler.pods.processes import cgroups_of

_PROC = Path("/proc")
_ABOVE = ":/.."
"""So begin the cgroups, in ``/proc/PID/cgroup``, of who is outside of the reader's cgroup namespace."""


class ContainerRuntime:
    """The parent at the time of the start, if it is outside of the container that this process is in.

    Whoever starts this process otherwise may end: a shell, or a session manager that adopted it.
    """

    def __init__(self, proc: Path = _PROC) -> None:
        self._pid = os.getppid()
        parent, own = _cgroup(proc / str(self._pid)), place_of(_cgroup(proc / "self"))
        self._is_outside = _ABOVE in parent or (own is not None and bool(parent) and place_of(parent) != own)

    def loss(self) -> str:
        """Why nobody looks after this container any more; empty: somebody does, or this is none."""
        if not self._is_outside or os.getppid() == self._pid:
            return ""
        return f"the process that looked after this container, pid {self._pid}, has died: another one takes its place"


def _cgroup(process: Path) -> str:
    """Empty: there is no such process, or none that is seen from here."""
    try:
        return cgroups_of(process)
    except OSError:
        return ""

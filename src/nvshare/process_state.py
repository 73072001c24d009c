"""Whether a process of this machine stands still, and what lets it go on."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_STATE = 0
"""Field of ``/proc/PID/stat``, counted from the one behind the name."""
STOPPED, TRACED = "T", "t"
"""By a signal; by a debugger."""


def state(pid: int) -> str:
    """The letter that proc(5) has for what it does; empty where there is none, or where that can't be seen."""
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[_STATE]
    except (OSError, IndexError):
        return ""


def is_stopped(pid: int) -> bool:
    """Whether it stands still until somebody sends it SIGCONT."""
    return state(pid) == STOPPED


def remedy(pid: int) -> str:
    """What people are told of one that is stopped."""
    return f"stopped (SIGSTOP or Ctrl-Z); it goes on with: kill -CONT {pid}"

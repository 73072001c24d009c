"""Which process is meant by a pid, as long as the machine runs: a pid alone is used again."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_START_TIME = 22 - 3
"""proc(5): the 22nd field of ``stat``, counted from the third, which follows the command's closing parenthesis."""
_STATE = 0
_FLAGS = 9 - 3
_EXITING = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h: set before a process that ends closes its files."""


def start_time(pid: int, proc: Path = _PROC) -> int:
    """When a process started, in clock ticks since the machine did; 0 if there is none, or if that can't be seen."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
        return int(stat.rpartition(b")")[2].split()[_START_TIME])
    except (OSError, ValueError, IndexError):
        return 0


def lives(pid: int, started: int, proc: Path = _PROC) -> bool:
    """Whether the process that started then can still do something: it is neither ended nor just ending."""
    return start_time(pid, proc) == started != 0 and not is_ending(pid, proc)


def is_ending(pid: int, proc: Path = _PROC) -> bool:
    """Whether a process has ended, or is just ending."""
    try:
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[_STATE] in (b"Z", b"X") or bool(int(fields[_FLAGS]) & _EXITING)
    except (OSError, ValueError, IndexError):
        return True


def cgroups_of(process: Path) -> str:
    """The text of the cgroups of a process, by its folder in ``/proc``; OSError.

    Their names are any bytes: those that are no text stay what they are.
    """
    return (process / "cgroup").read_text(errors="surrogateescape")


def this_boot() -> str:
    """A text that another boot of the machine does not have; empty if the kernel does not say it."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> int:
    """The number of the namespace in which this process sees pids; 0 if that can't be seen."""
    try:
        return (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return 0

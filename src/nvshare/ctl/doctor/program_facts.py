"""What was found out about the programs of this machine that use a GPU, before anything is said of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """A process that uses a GPU, or may soon, as the kernel shows it."""

    pid: int
    command: str
    library: bool | None
    """nvshare's library is in its memory; None: that can't be read."""
    told_to: bool | None = None
    """Its environment's LD_PRELOAD names the library; None: that can't be read."""
    run_dirs: tuple[str, ...] = ()
    """Where it looks for a scheduler, in this order; empty: that can't be read."""
    named: bool = False
    """Its environment names the only one."""
    scheduler_at: str | None = ""
    """The first of them at which a scheduler answers; empty: at none; None: that can't be found out."""
    scheduler_pid: int = 0
    """That scheduler's; 0: not seen from here."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A process that does not run, and for which others wait."""

    pid: int
    command: str
    role: str
    """``holds GPU 0``, or ``is awaited on GPU 0``."""
    waiting: int
    """Clients in the line of that device."""
    traced: bool
    """By a debugger; False: by a signal."""


@dataclass(frozen=True, slots=True)
class Awake:
    """Processes that can't leave their GPUs altogether when they are idle."""

    pids: tuple[int, ...]
    reason: str
    """As their scheduler says it."""

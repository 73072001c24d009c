"""Finds out about the processes of this machine that use a GPU: what they have in memory, and where they look."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nvshare import paths
from nvshare.admin import admin_pb2
from nvshare.ctl.doctor.observation import Seen, with_environment, with_maps
from nvshare.ctl.doctor.program_facts import Awake, Program, Stopped
from nvshare.paths import RunDir
from nvshare.process_state import STOPPED, TRACED, state
from nvshare.scheduler_process import SchedulerStartError, accepts
from nvshare.unix_sockets import listening_pid

_PROC = Path("/proc")
_HOLDING = ("holding", "leaving", "unresponsive")
_ENDED = ("", "Z", "X")
"""Nothing of it runs; its parent may not have asked for its status yet."""


def programs(users: Iterable[int], simulated: str) -> tuple[Program, ...]:
    """Those of these pids that live, and every other process that has the driver and nvshare's library in memory.

    ``simulated``: where this process's simulated GPUs are; programs with others are not of interest. Empty: none.
    """
    known = set(users)
    pids = sorted({int(entry.name) for entry in _PROC.glob("[0-9]*")} - {os.getpid()})
    return tuple(each for pid in pids for each in _program(pid, pid in known, simulated))


def _program(pid: int, is_user: bool, simulated: str) -> Iterator[Program]:
    folder = _PROC / str(pid)
    try:
        seen = with_maps(Seen(pid, 0), (folder / "maps").read_text(errors="replace"), "")
    except PermissionError:
        if is_user:
            yield Program(pid, _command(folder), None)
        return
    except OSError:  # it has ended
        return
    if not is_user and not (seen.preloaded and seen.drivers):
        return
    found = Program(pid, _command(folder), seen.preloaded)
    try:
        environment = (folder / "environ").read_bytes()
    except OSError:
        if is_user:
            yield found
        return
    variables = dict(
        part.decode(errors="surrogateescape").split("=", 1) for part in environment.split(b"\0") if b"=" in part
    )
    if is_user or variables.get(paths.SIMGPU_DIR, "") == simulated:
        told = replace(found, told_to=with_environment(seen, environment).told_to)
        yield _with_scheduler(told, folder, variables)


def _with_scheduler(found: Program, folder: Path, variables: Mapping[str, str]) -> Program:
    unknown = replace(found, scheduler_at=None)
    try:
        run_dirs = paths.run_dirs(variables, folder.stat().st_uid)
        found = replace(
            found,
            run_dirs=tuple(str(run_dir.root) for run_dir in run_dirs),
            named=bool(variables.get(paths.RUN_DIR)),
        )
        for run_dir in run_dirs:
            socket = _as_seen_by(folder, run_dir.client_socket)
            if accepts(socket):
                return replace(found, scheduler_at=str(run_dir.root), scheduler_pid=listening_pid(socket) or 0)
    except (SchedulerStartError, OSError):
        return unknown
    return found


def _as_seen_by(folder: Path, path: Path) -> Path:
    """The path at which this process finds what another one, as in a container, finds at ``path``."""
    if (folder / "ns" / "mnt").stat().st_ino == (_PROC / "self" / "ns" / "mnt").stat().st_ino:
        return path
    return folder / "root" / str(path).lstrip("/")


def _command(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    return ""


def left_behind(run_dir: RunDir) -> str:
    """What a scheduler that does not answer left in its run directory; empty: nothing, it ended in order."""
    with suppress(OSError, ValueError):
        pid = int(run_dir.pid_file.read_text())
        if state(pid) not in _ENDED:
            return f"its pid {pid} runs, and takes no programs"
        return f"its pid {pid} does not run any more"
    return "it left its socket" if os.path.lexists(run_dir.client_socket) else ""


def stopped(status: admin_pb2.Status) -> tuple[Stopped, ...]:
    """Those who hold a device, or are awaited there, and are stopped; the scheduler's pids are this process's, too."""
    found = []
    for device in status.devices:
        gpu = f"GPU {device.index}" if device.index else device.uuid
        waiting = sum(client.position > 0 for client in device.clients)
        roles = [(each.pid, each.command, f"holds {gpu}") for each in device.clients if each.state in _HOLDING]
        roles += [(each.pid, each.command, f"is awaited on {gpu}") for each in device.awaited]
        for pid, command, role in roles:
            seen = state(pid)
            if seen in (STOPPED, TRACED):
                found.append(Stopped(pid, command, role, waiting, seen == TRACED))
    return tuple(found)


def awake(status: admin_pb2.Status) -> tuple[Awake, ...]:
    """Those of whom the scheduler says that they can't sleep; a process on several devices once."""
    pids: dict[str, dict[int, None]] = {}
    for device in status.devices:
        for client in device.clients:
            if client.awake_reason:
                pids.setdefault(client.awake_reason, {})[client.pid] = None
    return tuple(Awake(tuple(listed), reason) for reason, listed in pids.items())

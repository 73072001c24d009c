"""The processes of a program, as ``/proc`` shows them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from nvshare.ctl.doctor import elf
from nvshare.ctl.doctor.observation import Seen, opens_device, with_environment, with_maps

_PROC = Path("/proc")
_YOUNG_SECONDS = 1.0
"""For so long after something new was seen of it a process is looked at each time."""
_OLD_INTERVAL_SECONDS = 0.5
_ELF_BYTES = 64 << 20
_FIRST_PID_NAMESPACE = 4026531836


_START_TIME, _ARGUMENTS = 19, 45
"""Fields of ``/proc/PID/stat``, counted from the one behind the name."""
_ENDING = "0"
"""Where the arguments are of a process that is ending, or that this user may not look at."""

_Stamp: TypeAlias = tuple[str, str]
_Key: TypeAlias = tuple[int, _Stamp]


class Family:
    """All processes below one, and what was seen of each; also of those that have ended."""

    def __init__(self, root: int, state_dir: str) -> None:
        """``state_dir``: where simulated GPUs are, empty for none."""
        self._root = root
        self._state_dir = state_dir
        self._seen: dict[_Key, Seen] = {}
        self._looked: dict[_Key, tuple[float, float]] = {}
        """When something new was seen of a process, and when it was looked at."""

    def look(self) -> None:
        """Looks at those that live now."""
        now = time.monotonic()
        for pid, parent in descendants(self._root):
            with suppress(OSError):
                self._look_at(pid, parent, now)

    def contexts(self, pids: frozenset[int]) -> None:
        """NVML says that these have a context."""
        for pid in pids:
            with suppress(OSError):
                key = pid, _stamp_of(pid)
                if key in self._seen:
                    self._seen[key] = replace(self._seen[key], context=True)

    def all(self) -> tuple[Seen, ...]:
        """In the order in which they were seen first. A process that executed another program counts once more."""
        return tuple(self._seen.values())

    def living(self) -> int:
        """How many of them live."""
        return sum(1 for _process in descendants(self._root))

    def _look_at(self, pid: int, parent: int, now: float) -> None:
        key = pid, _stamp_of(pid)
        if key[1][1] == _ENDING and any(known == pid for known, _stamp in self._seen):
            return
        changed, looked = self._looked.get(key, (now, -1.0))
        if now - changed > _YOUNG_SECONDS and now - looked < _OLD_INTERVAL_SECONDS:
            return
        before = self._seen.get(key) or Seen(pid, parent, forked=_executed(parent) == key[1][1])
        after = _look(before, self._state_dir)
        self._seen[key] = after
        self._looked[key] = now if after != before else changed, now


def _stamp_of(pid: int) -> _Stamp:
    """When a process began, and where its arguments are: elsewhere after each exec. OSError: it is gone."""
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[_START_TIME], fields[_ARGUMENTS]


def _executed(pid: int) -> str:
    """Where the arguments of a process are; empty: it is gone."""
    with suppress(OSError):
        return _stamp_of(pid)[1]
    return ""


def descendants(root: int) -> Iterator[tuple[int, int]]:
    """Every process below one, with its parent."""
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        for child in _children(parent):
            waiting.append(child)
            yield child, parent


def _children(pid: int) -> list[int]:
    found = []
    for thread in (_PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in thread.read_text().split()]
    return found


def _look(before: Seen, state_dir: str) -> Seen:
    folder = _PROC / str(before.pid)
    seen = before if before.executable else _first(before, folder)
    try:
        seen = with_maps(seen, (folder / "maps").read_text(errors="replace"), state_dir)
    except PermissionError:
        seen = replace(seen, hidden=not seen.preloaded)
    except OSError:
        return seen  # it has just ended
    if not seen.opened:
        seen = replace(seen, opened=any(map(opens_device, _open_files(folder))))
    return seen


def _first(seen: Seen, folder: Path) -> Seen:
    with suppress(OSError):
        seen = replace(seen, executable=str((folder / "exe").readlink()))
    with suppress(OSError):
        command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        seen = replace(seen, command=command)
    with suppress(OSError):
        seen = with_environment(seen, (folder / "environ").read_bytes())
    return replace(seen, elf=elf_of(folder / "exe"), privileged=is_privileged(folder / "exe"))


def _open_files(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        for entry in (folder / "fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())


def elf_of(path: Path) -> elf.Elf | None:
    """What an executable file says of itself; None: it can't be read, or is none."""
    with suppress(OSError), path.open("rb") as file:
        return elf.read(file.read(_ELF_BYTES))
    return None


def in_first_pid_namespace() -> bool:
    """Whether this process sees the machine's own pids."""
    with suppress(OSError):
        return (_PROC / "self" / "ns" / "pid").stat().st_ino == _FIRST_PID_NAMESPACE
    return True


def is_privileged(path: Path) -> bool:
    """Whether the file gives whoever executes it the rights of its owner or group."""
    with suppress(OSError):
        status = path.stat()
        if status.st_mode & stat.S_ISUID:
            return status.st_uid != os.getuid()
        return bool(status.st_mode & stat.S_ISGID) and status.st_gid != os.getgid()
    return False

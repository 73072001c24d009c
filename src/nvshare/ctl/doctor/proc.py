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
_CONTEXT_GONE_SECONDS = 0.1
"""After so long the kernel and the driver have freed what a pid had as another program."""
_ELF_BYTES = 64 << 20
_FIRST_PID_NAMESPACE = 4026531836


_START_TIME, _MEMORY_BYTES, _ARGUMENTS = 19, 20, 45
"""Fields of ``/proc/PID/stat``, counted from the one behind the name."""
_NOWHERE = "0"
"""Where the arguments are of a process that is just executing another program, or that this user may not look at."""

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
        self._known: dict[_Key, float] = {}
        """When it was seen first."""

    def look(self) -> None:
        """Looks at those that live now."""
        now = time.monotonic()
        for pid, parent in descendants(self._root):
            with suppress(OSError):
                # Once more where it executed another program meanwhile.
                _done = self._look_at(pid, parent, now) or self._look_at(pid, parent, now)

    def contexts(self, pids: frozenset[int], asked: float) -> None:
        """NVML, which was asked at that time (``time.monotonic``), said that these have a context.

        What a pid has become since is another process or another program, which may have none, and what the one before
        had may be listed for a moment.
        """
        for pid in pids:
            with suppress(OSError):
                key = pid, _stamp_of(pid)
                if key in self._known and self._known[key] + _CONTEXT_GONE_SECONDS <= asked:
                    self._seen[key] = replace(self._seen[key], context=True)

    def all(self) -> tuple[Seen, ...]:
        """In the order in which they were seen first. A process that executed another program counts once more."""
        return tuple(self._seen.values())

    def living(self) -> int:
        """How many of them live."""
        return sum(1 for _process in descendants(self._root))

    def _look_at(self, pid: int, parent: int, now: float) -> bool:
        """False: it executed another program meanwhile. OSError: it ended. What was read last does not count then."""
        key = pid, _stamp_of(pid)
        began, arguments = key[1]
        if arguments == _NOWHERE and any((known, stamp[0]) == (pid, began) for known, stamp in self._known):
            return True
        changed, looked = self._looked.get(key, (now, -1.0))
        if now - changed > _YOUNG_SECONDS and now - looked < _OLD_INTERVAL_SECONDS:
            return True
        before = self._seen.get(key) or self._begun(key, parent)
        seen = before
        for look in (_program, self._memory, _file, _devices):
            seen = look(seen, _PROC / str(pid))
            # The kernel hands out the mappings in pieces: of a process that ends or executes another program meanwhile,
            # the driver may have been among them and the library not.
            if _stamp_of(pid) != key[1]:
                return False
            self._keep(key, seen)
        self._looked[key] = now if seen != before else changed, now
        return True

    def _memory(self, seen: Seen, folder: Path) -> Seen:
        try:
            return with_maps(seen, (folder / "maps").read_text(errors="replace"), self._state_dir)
        except PermissionError:
            return replace(seen, hidden=not seen.preloaded)

    def _begun(self, key: _Key, parent: int) -> Seen:
        """A process that was not seen before. A forked one has all that its maker had, however soon it ends.

        Its arguments are where its maker's were, who may have ended or executed another program since.
        """
        pid, (_start, arguments) = key
        alike = [seen for (_pid, stamp), seen in self._seen.items() if stamp[1] == arguments != _NOWHERE]
        if not alike:
            return Seen(pid, parent)
        maker = max(alike, key=lambda seen: seen.pid == parent)
        self._keep(key, replace(maker, pid=pid, parent=parent, forked=True, context=False))
        return self._seen[key]

    def _keep(self, key: _Key, seen: Seen) -> None:
        self._known.setdefault(key, time.monotonic())
        self._seen[key] = seen


def _stamp_of(pid: int) -> _Stamp:
    """When a process began, and where its arguments are: elsewhere after each exec. OSError: it is gone, or ending."""
    fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    if fields[_MEMORY_BYTES] == "0":
        raise ProcessLookupError
    return fields[_START_TIME], fields[_ARGUMENTS]


def descendants(root: int) -> Iterator[tuple[int, int]]:
    """Every process below one, with its parent."""
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        for child in _children(parent):
            waiting.append(child)
            yield child, parent


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it may end at any time
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def _program(seen: Seen, folder: Path) -> Seen:
    # While it executes another program its memory, and so its command line, is empty: it is looked at again.
    if seen.executable and seen.command:
        return seen
    with suppress(OSError):
        seen = replace(seen, executable=str((folder / "exe").readlink()))
    with suppress(OSError):
        command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        seen = replace(seen, command=command)
    with suppress(OSError):
        seen = with_environment(seen, (folder / "environ").read_bytes())
    return seen


def _file(seen: Seen, folder: Path) -> Seen:
    """Slow, so what is in memory was read before."""
    if seen.elf is not None:
        return seen
    return replace(seen, elf=elf_of(folder / "exe"), privileged=is_privileged(folder / "exe"))


def _devices(seen: Seen, folder: Path) -> Seen:
    return seen if seen.opened else replace(seen, opened=any(map(opens_device, _open_files(folder))))


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

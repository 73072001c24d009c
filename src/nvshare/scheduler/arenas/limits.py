"""How much memory this process can still take before it or the machine has none left.

The kernel kills a process beyond its cgroup's limit, whoever uses what it took. So the limits are read before memory is
taken: those of every memory cgroup of the process, as far as it can see them, and what the machine has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARGIN_BYTES: Final = 128 << 20
"""What is left for this process itself below its limit: 16384 clients take some 60 MiB."""
_MACHINE_MARGIN_BYTES: Final = 2 << 30
_MACHINE_SHARE: Final = 10
"""Of a small machine only this part is left: the tenth."""

_PROC = Path("/proc")
_NO_LIMIT = 1 << 60
"""Version 1 says no limit as the largest number of whole pages."""


@dataclass(frozen=True, slots=True)
class _Names:
    """How a version of cgroups calls its files, and what of the memory in use can be had at once."""

    limits: tuple[str, ...]
    used: str
    cache: str


_NAMES = {
    # Beyond memory.high nobody is killed, but slowed down until it is of no use.
    2: _Names(("memory.max", "memory.high"), "memory.current", "inactive_file"),
    1: _Names(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
}


class MemoryLimits:
    """The limits that count for this process. What can't be read limits nothing."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._meminfo = proc / "meminfo"
        self._folders = tuple(_folders(proc / "self"))

    def available_bytes(self) -> int:
        """What can be taken of what the machine has left without swapping its own; 0 if it does not say.

        2 GiB stay untouched, or a tenth of a machine for which that would be more: others of it grow as well, and whom
        the kernel or kubelet ends for want of memory is not chosen by what it took last.
        """
        return max(0, self._machine_bytes())

    def cgroup_bytes(self) -> int | None:
        """The least that one of the cgroups allows all its processes together, without the margin; None: no limit."""
        limits = [limit for folder, names in self._folders for limit in _limits(folder, names)]
        return max(0, min(limits) - MARGIN_BYTES) if limits else None

    def room_bytes(self) -> int:
        """How much can be taken now, without the margins. Negative: too much is taken already."""
        rooms = [self._machine_bytes()]
        for folder, names in self._folders:
            for limit in _limits(folder, names):
                rooms.append(limit - _number(folder / names.used) + _cache(folder, names) - MARGIN_BYTES)
        return min(rooms)

    def _machine_bytes(self) -> int:
        """As ``available_bytes``. Negative: less than the margin is left."""
        found = {}
        for line in _text(self._meminfo).splitlines():
            name, _colon, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found[name] = int(value.split()[0]) << 10
        margin_bytes = min(_MACHINE_MARGIN_BYTES, found.get("MemTotal", 0) // _MACHINE_SHARE)
        return found.get("MemAvailable", 0) - margin_bytes


def _folders(own: Path) -> Iterator[tuple[Path, _Names]]:
    """The folder of the memory cgroup of this process, and those around it that can be seen."""
    for line in _text(own / "cgroup").splitlines():
        _number_of, controllers, path = line.split(":", 2)
        version = 2 if not controllers else 1
        if version == 1 and "memory" not in controllers.split(","):
            continue
        for mounted, root in _mounts(own, version):
            # In a container the mount shows the container's cgroup as its root, and the path may be the host's.
            inner = path.removeprefix(root.rstrip("/")) if path.startswith(root) else "/"
            folder = mounted / inner.strip("/")
            own_folder = folder if folder.is_dir() else mounted
            around = (each for each in (own_folder, *own_folder.parents) if each.is_relative_to(mounted))
            yield from ((each, _NAMES[version]) for each in around)


def _mounts(own: Path, version: int) -> Iterator[tuple[Path, str]]:
    """Where the hierarchy of memory cgroups is mounted, and which cgroup is seen there."""
    for line in _text(own / "mountinfo").splitlines():
        before, _dash, after = line.partition(" - ")
        _id, _parent, _device, root, place, *_more = before.split(" ")
        # A source may be empty: two spaces.
        kind, _source, options, *_more = after.split(" ")
        if (version == 2 and kind == "cgroup2") or (
            version == 1 and kind == "cgroup" and "memory" in options.split(",")
        ):
            yield Path(place), root
            return


def _limits(folder: Path, names: _Names) -> list[int]:
    found = [_number(folder / name, _NO_LIMIT) for name in names.limits]
    return [limit for limit in found if limit < _NO_LIMIT]


def _cache(folder: Path, names: _Names) -> int:
    for line in _text(folder / "memory.stat").splitlines():
        name, _space, value = line.partition(" ")
        if name == names.cache:
            return int(value)
    return 0


def _number(file: Path, otherwise: int = 0) -> int:
    text = _text(file).strip()
    return int(text) if text.isdigit() else otherwise


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""

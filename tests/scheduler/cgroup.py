"""A real memory cgroup for a test's scheduler."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.polling import poll_until

_HIERARCHIES = ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max"))


class Cgroup:
    """A memory cgroup of its own, for whoever joins it."""

    def __init__(self, folder: Path, limit: str) -> None:
        self.folder = folder
        self._limit = folder / limit

    def limit(self, limit_bytes: int) -> None:
        """Sets what all in it may have together."""
        self._limit.write_text(str(limit_bytes))

    def used(self) -> int:
        """What they have."""
        names = ("memory.usage_in_bytes", "memory.current")
        return sum(int((self.folder / name).read_text()) for name in names if (self.folder / name).exists())

    def killed(self) -> int:
        """How many processes the kernel has ended for it."""
        names = ("memory.oom_control", "memory.events")
        text = "".join((self.folder / name).read_text() for name in names if (self.folder / name).exists())
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


@contextmanager
def new_cgroup(name: str = "") -> Iterator[Cgroup]:
    """Gone with its context; the test is skipped where nobody may make one."""
    name = name or f"nvshare-test-{os.getpid()}"
    for hierarchy, limit in _HIERARCHIES:
        folder = hierarchy / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / limit).exists():
                yield Cgroup(folder, limit)
                return
        finally:
            poll_until(partial(_remove, folder), "nobody is in it")
    pytest.skip("no memory cgroup can be made here")


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True

"""One plugin for a resource on a node: kubelet drops a plugin's devices when an older instance of it ends later.

The lock is a file in kubelet's folder, locked with flock(2): the kernel frees it when its holder dies, however that
happens. kubelet empties the folder when it starts, so a lock counts only while its file is the one with the name.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class InstanceLock:
    """The right to serve one resource in one kubelet folder."""

    def __init__(self, kubelet_dir: Path, resource_name: str, owner: str) -> None:
        """``owner`` is written into the file: an instance that waits can name it."""
        self._path = kubelet_dir / f"{resource_name.replace('/', '-')}.lock"
        self._owner = owner
        self._file: int | None = None

    def try_acquire(self) -> bool:
        """Takes the lock unless another instance has it; raises OSError when the folder can't be used."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_named(file):
                return False
            os.ftruncate(file, 0)
            os.pwrite(file, self._owner.encode(), 0)
            self._file, file = file, -1
        except BlockingIOError:
            return False
        finally:
            if file >= 0:
                os.close(file)
        return True

    def release(self) -> None:
        """Lets the next instance in. The file stays: removing it could remove the next one's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def holder(self) -> str:
        """Who has the lock, as they call themselves."""
        try:
            return self._path.read_text(encoding="utf-8", errors="replace") or "another instance"
        except OSError:
            return "another instance"

    def _is_named(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            return False

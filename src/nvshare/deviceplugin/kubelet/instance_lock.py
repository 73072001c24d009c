"""One plugin for a resource on a node, and one that may follow it.

A lock is a file in kubelet's folder, locked with flock(2): the kernel frees it when its holder dies, however that
happens. kubelet deletes files of its folder when it starts, so a lock counts only while its file is the one with the
name.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

_OFFERED = "offered by "


def lock_file(kubelet_dir: Path, resource_name: str, kind: str = "") -> Path:
    """That of who serves a resource; ``next.``: that of who does so next."""
    return kubelet_dir / f"{resource_name.replace('/', '-')}.{kind}lock"


class InstanceLock:
    """The right to serve one resource in one kubelet folder, or (another file) the right to be the next who does."""

    def __init__(self, path: Path, owner: str) -> None:
        """``owner`` is written into the file: an instance that waits can name it."""
        self._path = path
        self._owner = owner
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether the lock is ours, and still counts."""
        return self._file is not None and self._is_named(self._file)

    def try_acquire(self) -> bool:
        """Takes the lock unless another instance has it; raises OSError when the folder can't be used."""
        if self.held:
            return True
        self.release()
        file = self._locked()
        if file is None:
            return False
        self._file = file
        self._write(self._owner)
        return True

    def release(self) -> None:
        """Lets the next instance in, and leaves no file behind. Whoever waits at this one makes a new one."""
        if self._file is None:
            return
        # While the lock is ours nobody else's file has the name; when it no longer counts, another's may have.
        if self._is_named(self._file):
            # A file that stays is in nobody's way.
            with suppress(OSError):
                self._path.unlink()
        os.close(self._file)
        self._file = None

    def is_taken(self) -> bool:
        """Whether another instance has the lock; raises OSError when the folder can't be used."""
        try:
            file = self._locked(os.O_RDWR)
        except FileNotFoundError:
            return False
        if file is not None:
            os.close(file)
        return file is None

    def offer(self) -> None:
        """Says to the instance that waits for the lock that it may begin. The lock is ours as long as we need it."""
        self._write(_OFFERED + self._owner)

    def is_offered(self) -> bool:
        """Whether its holder has said so."""
        return self.holder().startswith(_OFFERED)

    def holder(self) -> str:
        """Who has the lock, as they call themselves."""
        try:
            return self._path.read_text(encoding="utf-8", errors="replace") or "another instance"
        except OSError:
            return "another instance"

    def _locked(self, flags: int = os.O_RDWR | os.O_CREAT) -> int | None:
        """The file, open and locked; None when another instance has it."""
        file = os.open(self._path, flags | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_named(file):
                kept, file = file, -1
                return kept
        except BlockingIOError:
            pass
        finally:
            if file >= 0:
                os.close(file)
        return None

    def _write(self, text: str) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, text.encode(), 0)

    def _is_named(self, file: int) -> bool:
        """Where the folder can't be looked into for now, what is locked counts."""
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True

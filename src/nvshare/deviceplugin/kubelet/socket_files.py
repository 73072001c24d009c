"""The files of sockets: which one has a name now, and how one goes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file a path names; a file made anew under the same name is another one."""

    device: int
    inode: int
    changed_ns: int


def identity(path: Path) -> FileIdentity | None:
    """Which file has this name now; None when none has."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileIdentity(status.st_dev, status.st_ino, status.st_ctime_ns)


def remove(socket: Path) -> None:
    """Removes a socket's file. One that stays is tried again by who has the lock next."""
    with suppress(OSError):
        socket.unlink()

"""The files into which host memory of programs that sleep goes: where they are, and how one is made.

None has a name. So each is gone with the last process that has it open, whatever becomes of the scheduler.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from nvshare import display
from nvshare.log import Log
from nvshare.mounts import is_in_memory, is_remote

_MODE = 0o600
_SHARE_TENTHS = 9
"""Of what is free, where nobody says how much."""
_REMEDY = "name a folder on a local disk"
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR)
"""A file system without it; a kernel without it."""


def bytes_in(folder: Path, size_bytes: int | None, log: Log) -> int:
    """What all files there together may have: so much, or (None) nine tenths of what is free now.

    One is made to see that it can be. ValueError says what is wrong, and what to do.
    """
    try:
        if not folder.is_dir():
            wrong = "is no folder" if folder.exists() else "does not exist"
            raise ValueError(f"--swap-dir {folder} {wrong}: make a folder on a local disk, and name that")
        os.close(make(folder))
        room = os.statvfs(folder)
    except OSError as error:
        raise ValueError(
            f"no file can be made in --swap-dir {folder}: {error.strerror}; it has to be a folder in which the "
            "scheduler may write"
        ) from error
    there_bytes, free_bytes = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    if size_bytes is not None and size_bytes > there_bytes:
        raise ValueError(
            f"--swap-size {display.size(size_bytes)} is more than the file system of --swap-dir {folder} has, "
            f"{display.size(there_bytes)}: lower it, or name a folder on a larger disk"
        )
    if size_bytes is None and not free_bytes:
        raise ValueError(f"the disk of --swap-dir {folder} is full: free some of it, or name a folder on another one")
    if is_in_memory(folder):
        log.warning("--swap-dir is in memory, which it is to spare", folder=str(folder), remedy=_REMEDY)
    elif is_remote(folder):
        log.warning("--swap-dir is on another machine's disk", folder=str(folder), remedy=_REMEDY)
    return free_bytes * _SHARE_TENTHS // 10 if size_bytes is None else size_bytes


def make(folder: Path) -> int:
    """The descriptor of a new empty file without a name, of mode 0600; of what is in it no cache is kept, if possible.

    OSError.
    """
    try:
        # O_EXCL: nobody can give it a name later.
        descriptor = os.open(folder, os.O_TMPFILE | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _MODE)
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
        descriptor = _make_with_name(folder)
    # Not when it is opened: some file systems refuse that only after the file is there.
    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_DIRECT)
    return descriptor


def _make_with_name(folder: Path) -> int:
    path = folder / f".nvshare-{secrets.token_hex(16)}"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _MODE)
    try:
        path.unlink()
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor

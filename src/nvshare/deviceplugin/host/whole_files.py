"""Files that appear whole or not at all: a temporary one is written and synced, then renamed, and the folder synced.

The temporary one is locked by flock(2) until it has its name. So one that is not was left by who was killed.
"""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(target: Path, content: bytes, mode: int) -> None:
    """Writes the file anew; raises OSError, and then nothing is left behind. Its folder must be there."""
    descriptor, temporary = _locked_temporary(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            temporary.rename(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # The names must survive a power cut as well: the file's in its folder, and the folder's in the root.
    for folder in (target.parent, target.parent.parent):
        _sync_folder(folder)


def remove_leftovers(folder: Path, name: str) -> None:
    """Removes what killed writers of a file of this name left in the folder; what somebody writes now stays."""
    for leftover in folder.glob(f".{glob.escape(name)}.*"):
        # What is locked, or can't be removed, is in nobody's way.
        with suppress(OSError), leftover.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def is_unchanged(before: os.stat_result, file: Path) -> bool:
    """Whether the file is the one that it was, and as it was."""
    try:
        now = file.stat()
    except OSError:
        return False
    # Whatever is written, cut or set changes this time as well.
    return os.path.samestat(before, now) and before.st_ctime_ns == now.st_ctime_ns


def _locked_temporary(target: Path) -> tuple[int, Path]:
    """A new file beside the target: its descriptor and its name."""
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        # Where files can't be locked nobody takes one for a leftover.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Before it was locked another one may have taken it for a leftover.
        if os.fstat(descriptor).st_nlink:
            return descriptor, Path(name)
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

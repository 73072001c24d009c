"""Files that appear whole or not at all: a temporary one is written and synced, then renamed, and the folder synced."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(target: Path, content: bytes, mode: int) -> None:
    """Writes the file anew; raises OSError, and then nothing is left behind. Its folder must be there."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
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


def is_unchanged(before: os.stat_result, file: Path) -> bool:
    """Whether the file is the one that it was, and as it was."""
    try:
        now = file.stat()
    except OSError:
        return False
    # Whatever is written, cut or set changes this time as well.
    return os.path.samestat(before, now) and before.st_ctime_ns == now.st_ctime_ns


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Folders that were removed where they are mounted from."""

from __future__ import annotations

import os
from pathlib import Path

from nvshare.mounts import is_dead, is_in_memory


def test_dead_and_alive(tmp_path: Path) -> None:
    """Dead is what leads to a folder that has no name any more; a folder that is not there is missing, not dead."""
    folder = tmp_path / "folder"
    assert not is_dead(folder)
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    mount = Path(f"/proc/self/fd/{descriptor}")
    assert not is_dead(folder)
    assert not is_dead(mount)
    folder.rmdir()
    folder.mkdir()
    assert is_dead(mount)
    assert not is_dead(folder)
    os.close(descriptor)


def test_in_memory(tmp_path: Path) -> None:
    """The kernel's own file systems of devices are; a folder that does not exist is nothing."""
    assert is_in_memory(Path("/dev/shm"))
    assert not is_in_memory(Path("/proc"))
    assert not is_in_memory(tmp_path / "none")

"""Folders that were removed where they are mounted from."""

from __future__ import annotations

import os
from pathlib import Path

from nvshare.mounts import is_dead


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

"""Folders that were removed where they are mounted from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvshare.mounts import is_dead, is_in_memory, is_remote


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


def test_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kind of the file system."""
    assert not is_remote(tmp_path)
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 {os.major(device)}:{os.minor(device)} / /mnt rw - nfs4 server:/ rw\n")
    monkeypatch.setattr("nvshare.mounts._MOUNTS", mounts)
    assert is_remote(tmp_path)

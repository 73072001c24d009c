"""Folders that are mounts of others, as a container's are of the node's, or file systems of their own."""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_IN_MEMORY = ("tmpfs", "ramfs")
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "9p", "glusterfs", "fuse.sshfs", "fuse.glusterfs")


def is_dead(folder: Path) -> bool:
    """Whether the folder was removed where it is mounted from.

    Then nothing can be made in it, and what is made there under its name is not seen here. Only a new mount helps.
    """
    try:
        return folder.stat().st_nlink == 0
    except OSError:
        return False


def is_in_memory(folder: Path) -> bool:
    """Whether what is in the folder is gone when the machine restarts; False where that can't be found out."""
    return _is_of(folder, _IN_MEMORY)


def is_remote(folder: Path) -> bool:
    """Whether what is in the folder is on another machine; False where that can't be found out."""
    return _is_of(folder, _REMOTE)


def _is_of(folder: Path, kinds: tuple[str, ...]) -> bool:
    try:
        device = folder.stat().st_dev
        mounts = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(_device(mount) == number and _kind(mount) in kinds for mount in mounts)


def _device(mount: str) -> str:
    return mount.split()[2]


def _kind(mount: str) -> str:
    return mount.partition(" - ")[2].split()[0]

"""Folders that are mounts of others, as a container's are of the node's."""

from __future__ import annotations

from pathlib import Path


def is_dead(folder: Path) -> bool:
    """Whether the folder was removed where it is mounted from.

    Then nothing can be made in it, and what is made there under its name is not seen here. Only a new mount helps.
    """
    try:
        return folder.stat().st_nlink == 0
    except OSError:
        return False

"""What the plugin needs of the node itself: this version's library, the scheduler's client socket, living folders."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nvshare.mounts import is_dead


class DeadFolderError(Exception):
    """A folder that was removed on the node: the process must be started anew to see the one that takes its place."""


@dataclass(frozen=True, slots=True)
class HostProblems:
    """What is missing on the node; None: nothing."""

    library: str | None = None
    scheduler: str | None = None
    cdi: str | None = None
    described: frozenset[str] | None = None
    """The GPUs whose CDI devices container runtimes find; None: they need not."""


def check_folders(folders: Iterable[Path]) -> None:
    """Raises DeadFolderError naming the first folder that is a mount of one that was removed."""
    for folder in folders:
        if is_dead(folder):
            raise DeadFolderError(
                f"{folder} was removed on the node, and this container's mount of it stays empty: "
                "ending, so that the container is made anew with the folder that is there then"
            )


def socket_problem(path: Path) -> str | None:
    """Why the scheduler can't be reached there; None: it can."""
    remedy = "is nvshare-scheduler running on this node, with the same --run-dir?"
    try:
        if stat.S_ISSOCK(path.stat().st_mode):
            return None
    except OSError as error:
        return f"no scheduler socket {path} ({error.strerror}): {remedy}"
    return f"{path} is no socket: {remedy}"

"""What the plugin needs of the node itself: this version's library, and the scheduler's client socket."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from nvshare.paths import LIBRARY_NAME


@dataclass(frozen=True, slots=True)
class HostProblems:
    """What is missing on the node; None: nothing."""

    library: str | None = None
    scheduler: str | None = None


def inspect(library_dir: Path, library_bytes: int, client_socket: Path) -> HostProblems:
    """What is missing now."""
    return HostProblems(_library_problem(library_dir / LIBRARY_NAME, library_bytes), _socket_problem(client_socket))


def _library_problem(path: Path, size: int) -> str | None:
    remedy = "run nvshare-device-plugin install-library (the init container does)"
    try:
        status = path.stat()
    except OSError as error:
        return f"library {path} is missing on the host ({error.strerror}): {remedy}"
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        return f"library {path} on the host is not the one that was installed: remove its folder, then {remedy}"
    return None


def _socket_problem(path: Path) -> str | None:
    remedy = "is nvshare-scheduler running on this node, with the same --run-dir?"
    try:
        if stat.S_ISSOCK(path.stat().st_mode):
            return None
    except OSError as error:
        return f"no scheduler socket {path} ({error.strerror}): {remedy}"
    return f"{path} is no socket: {remedy}"

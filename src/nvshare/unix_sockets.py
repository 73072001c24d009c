"""Unix sockets in the file system: who listens at a path, whether the folder is safe, how gRPC spells a path."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from urllib.parse import quote

_CREDENTIALS = struct.Struct("3i")


def listening_pid(path: Path) -> int | None:
    """The pid of the process that listens at a path, 0 if that can't be seen; None if nobody does.

    OSError: that can't be found out.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        try:
            connection.connect(os.fspath(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except BlockingIOError:  # somebody listens, and others fill the queue
            return 0
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(raw)[0]
        return pid


def named(pid: int) -> str:
    """A process that listens, for people."""
    return f"pid {pid}" if pid else "a process that can't be seen from here"


def distrust(run_dir: Path) -> str:
    """Why a run directory must not be used; empty if it may be, or if there is none yet.

    Where everybody may write, as in /tmp, anybody may have made a folder of this name to be believed, or to have files
    written through links. The library keeps the same rule (connection.c).
    """
    try:
        if not run_dir.parent.stat().st_mode & stat.S_IWOTH:
            return ""
        found = run_dir.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{run_dir} can't be looked at: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{run_dir} is no folder of its own, in {run_dir.parent}, where everybody may write"
    if found.st_uid not in (0, os.geteuid()):
        return f"{run_dir} belongs to user {found.st_uid}, in {run_dir.parent}, where everybody may write"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {run_dir} (mode {stat.S_IMODE(found.st_mode):o})"
    return ""


def grpc_address(path: Path) -> str:
    """What gRPC calls the socket at a path: a URI, in which some characters are written in another way."""
    return f"unix:{quote(os.fspath(path.absolute()))}"

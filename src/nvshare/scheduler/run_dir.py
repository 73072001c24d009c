"""The run directory: makes it with the right modes, claims it for one running scheduler, opens sockets in it."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nvshare.paths import RunDir

_SUN_PATH_BYTES = 107
_BACKLOG = 4096


class RunDirError(Exception):
    """The run directory can't be used; the message names it, the reason and what to do."""


@contextmanager
def claimed(run_dir: RunDir) -> Iterator[None]:
    """The run directory is this process's for the duration; RunDirError if it can't be."""
    _check_paths(run_dir)
    _make_directories(run_dir)
    pid_file = _lock_pid_file(run_dir)
    try:
        yield
    finally:
        sockets = (run_dir.client_socket, run_dir.legacy_socket, run_dir.admin_socket, run_dir.status_socket)
        for path in (*sockets, run_dir.pid_file):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        os.close(pid_file)


def listen(path: Path, mode: int) -> socket.socket:
    """A new listening Unix socket in place of an old one. The caller has claimed the run directory."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        path.unlink(missing_ok=True)
        listener.bind(os.fspath(path))
        path.chmod(mode)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise RunDirError(f"cannot serve {path}: {error.strerror}; remove it or choose another --run-dir") from error
    return listener


def _check_paths(run_dir: RunDir) -> None:
    longest = max((run_dir.client_socket, run_dir.admin_socket), key=lambda path: len(os.fsencode(path)))
    if len(os.fsencode(longest)) > _SUN_PATH_BYTES:
        raise RunDirError(
            f"run directory {run_dir.root}: the socket path {longest} is longer than the {_SUN_PATH_BYTES} bytes "
            "that the kernel allows; choose a shorter --run-dir"
        )


def _make_directories(run_dir: RunDir) -> None:
    try:
        if not run_dir.root.exists():
            run_dir.root.mkdir(parents=True)
            run_dir.root.chmod(0o755)
        _check_owner(run_dir.root)
        for directory, mode in (
            (run_dir.client_socket.parent, 0o755),
            (run_dir.status_socket.parent, 0o755),
            (run_dir.admin_socket.parent, 0o700),
        ):
            directory.mkdir(exist_ok=True)
            _check_owner(directory)
            directory.chmod(mode)
    except OSError as error:
        raise RunDirError(
            f"run directory {run_dir.root} cannot be used: {error.strerror} ({error.filename}); "
            "choose another with --run-dir"
        ) from error


def _check_owner(directory: Path) -> None:
    found = directory.lstat()
    if directory.is_symlink():
        found = directory.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise RunDirError(f"{directory} is no directory; choose another --run-dir")
    if found.st_uid not in (0, os.geteuid()):
        raise RunDirError(
            f"{directory} belongs to user {found.st_uid}, not to this one ({os.geteuid()}); choose another --run-dir"
        )


def _lock_pid_file(run_dir: RunDir) -> int:
    """An open descriptor that keeps the lock; the file holds this process's pid."""
    while True:
        try:
            descriptor = os.open(run_dir.pid_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise RunDirError(f"cannot write {run_dir.pid_file}: {error.strerror}; choose another --run-dir") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise RunDirError(
                f"a scheduler with pid {owner} already serves the run directory {run_dir.root}; "
                "stop it first or choose another --run-dir"
            ) from None
        # A scheduler that ended meanwhile may have removed the file that was opened here.
        with suppress(FileNotFoundError):
            if run_dir.pid_file.stat().st_ino == os.fstat(descriptor).st_ino:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                return descriptor
        os.close(descriptor)

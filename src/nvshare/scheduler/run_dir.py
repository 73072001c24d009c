"""The run directory: makes it with the right modes, claims it for one running scheduler, opens sockets in it."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nvshare.mounts import is_dead
from nvshare.paths import RunDir
from nvshare.regular_files import read_regular
from nvshare.unix_sockets import distrust, listening_pid, named

_SUN_PATH_BYTES = 107
_BACKLOG = 4096
_PID_BYTES = 64


class RunDirError(Exception):
    """The run directory can't be used; the message names it, the reason and what to do."""


class Claim:
    """A claimed run directory, and what was put into it: that is all that is taken away at the end."""

    def __init__(self, run_dir: RunDir, directory: int) -> None:
        """``directory``: a descriptor of the locked directory; this one's from now on."""
        self._run_dir = run_dir
        self._directory = directory
        self._own: dict[Path, int] = {}
        """Descriptors, because the number of a file that is gone may be another's."""

    def listen(self, path: Path, mode: int) -> socket.socket:
        """A new listening Unix socket in place of one where nobody listens any more."""
        _check_nobody_listens(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            path.unlink(missing_ok=True)
            listener.bind(os.fspath(path))
            path.chmod(mode)
            listener.listen(_BACKLOG)
            self._owns(path)
        except OSError as error:
            listener.close()
            raise RunDirError(
                f"cannot serve {path}: {error.strerror}; remove it or choose another --run-dir"
            ) from error
        return listener

    def publish(self, made: Path, path: Path, mode: int) -> None:
        """Gives a socket that somebody else made its mode and its place, where nobody else listens."""
        _check_nobody_listens(path)
        try:
            made.chmod(mode)
            made.rename(path)
            self._owns(path)
        except OSError as error:
            raise RunDirError(f"cannot serve {path}: {error.strerror}; choose another --run-dir") from error

    def write_pid(self) -> None:
        """Says which process this is, for people and for scripts."""
        path = self._run_dir.pid_file
        try:
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{os.getpid()}\n")
            self._owns(path)
        except OSError as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise RunDirError(
                f"cannot write {path}: {error.strerror}; make room there or choose another --run-dir"
            ) from error

    def has(self, path: Path) -> bool:
        """Whether what this one has put there is there still."""
        try:
            return os.path.samestat(path.lstat(), os.fstat(self._own[path]))
        except OSError:
            return False

    def gone(self) -> list[Path]:
        """What this one has put there, and is there no longer."""
        return [path for path in self._own if not self.has(path)]

    def mend(self) -> None:
        """Makes the directory, its folders and the pid's file anew where they are gone; RunDirError if it can't be."""
        if not self._is_in_place():
            self._take_anew()
        _make_directories(self._run_dir)
        if not self.has(self._run_dir.pid_file):
            self.write_pid()

    def clear(self) -> None:
        """Takes away what is still this one's: another scheduler's files may be in their place by now."""
        for path, own in self._own.items():
            with suppress(OSError):
                if self.has(path):
                    path.unlink()
            os.close(own)
        self._own.clear()
        os.close(self._directory)

    def _owns(self, path: Path) -> None:
        own = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        if path in self._own:
            os.close(self._own[path])
        self._own[path] = own

    def _is_in_place(self) -> bool:
        """Whether the claimed directory has its name still; RunDirError if nothing can be made in it any more."""
        root = self._run_dir.root
        try:
            if not os.path.samestat(root.stat(), os.fstat(self._directory)):
                return False
        except OSError:
            return False
        if is_dead(root):
            raise RunDirError(
                f"run directory {root} was removed where it is mounted from: nothing made in it is seen by anybody; "
                "start the scheduler anew, in a new container if it is in one"
            )
        return True

    def _take_anew(self) -> None:
        """Makes and locks a directory in place of the one that was removed."""
        root = self._run_dir.root
        try:
            root.mkdir()
            root.chmod(0o755)
        except FileExistsError:
            # Somebody was faster. If it is another scheduler, it has locked it.
            pass
        except OSError as error:
            raise RunDirError(f"run directory {root} was removed, and can't be made anew: {error.strerror}") from error
        directory = _lock(self._run_dir)
        try:
            _check_nobody_serves(self._run_dir)
        except BaseException:
            os.close(directory)
            raise
        os.close(self._directory)
        self._directory = directory


@contextmanager
def claimed(run_dir: RunDir) -> Iterator[Claim]:
    """The run directory is this process's for the duration; RunDirError if it can't be."""
    _check_paths(run_dir)
    _make_directories(run_dir)
    claim = Claim(run_dir, _lock(run_dir))
    try:
        _check_nobody_serves(run_dir)
        claim.write_pid()
        yield claim
    finally:
        claim.clear()


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
    found = directory.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise RunDirError(f"{directory} is no directory; choose another --run-dir")
    if found.st_uid not in (0, os.geteuid()):
        raise RunDirError(
            f"{directory} belongs to user {found.st_uid}, not to this one ({os.geteuid()}); choose another --run-dir"
        )
    if reason := distrust(directory):
        raise RunDirError(f"{reason}; choose another --run-dir")


def _lock(run_dir: RunDir) -> int:
    """A descriptor of the directory that keeps it locked; whoever removes a file in it changes nothing about that."""
    while True:
        try:
            descriptor = os.open(run_dir.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The directory that was opened here may have been removed meanwhile.
                if os.path.samestat(run_dir.root.stat(), os.fstat(descriptor)):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
        except BlockingIOError:
            raise RunDirError(
                f"a scheduler with pid {_owner(run_dir)} already serves the run directory {run_dir.root}; "
                "stop it first or choose another --run-dir"
            ) from None
        except FileNotFoundError:
            raise RunDirError(f"{run_dir.root} was removed; try again") from None
        except OSError as error:
            raise RunDirError(f"cannot lock {run_dir.root}: {error.strerror}; choose another --run-dir") from error
        os.close(descriptor)


def _owner(run_dir: RunDir) -> str:
    with suppress(OSError):
        if text := read_regular(run_dir.pid_file, _PID_BYTES).decode(errors="replace").strip():
            return text
    with suppress(OSError):
        if pid := listening_pid(run_dir.client_socket):
            return str(pid)
    return "unknown"


def _check_nobody_serves(run_dir: RunDir) -> None:
    for path in (run_dir.client_socket, run_dir.legacy_socket, run_dir.admin_socket, run_dir.status_socket):
        _check_nobody_listens(path)


def _check_nobody_listens(path: Path) -> None:
    try:
        pid = listening_pid(path)
    except OSError as error:
        raise RunDirError(f"cannot serve {path}: {error.strerror}; choose another --run-dir") from error
    if pid is not None:
        raise RunDirError(
            f"another scheduler, {named(pid)}, already serves {path}, perhaps that of another nvshare version; "
            "two would let programs overlap on a GPU: stop it first or choose another --run-dir"
        )

"""A scheduler for those who have none: found running, or started in the background.

Two locks in the run directory (flock(2), so that nothing stays behind when a process dies) order what happens:
``start.lock`` is held by the one that is starting a scheduler; ``programs.lock`` is shared by all programs that were
started with ``run``, and a scheduler that wants to end because it is idle must first get it for itself alone.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nvshare import paths
from nvshare.ctl.errors import CommandError, ExitCode

IDLE_SECONDS = 60
"""A scheduler that was started here ends so long after its last client."""

_START_DEADLINE_SECONDS = 15.0
_SETTLE_SECONDS = 2.0
_POLL_SECONDS = 0.02
_LOG_LINES = 5


def ensure_scheduler(run_dir: paths.RunDir, environment: Mapping[str, str]) -> int | None:
    """Returns when a scheduler accepts clients.

    The file descriptor that it returns keeps an idle scheduler from ending for as long as it, or a copy that a child
    process inherited, is open. None: the scheduler is another user's, who decides when it ends.
    CommandError: there is no scheduler and none could be started.
    """
    try:
        run_dir.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        hold = _open(run_dir.programs_lock)
        start = _open(run_dir.start_lock)
    except OSError as error:
        if accepts(run_dir.client_socket):
            return None
        raise _failure(
            f"no scheduler runs and none can be started: {run_dir.root} can't be written ({error.strerror}); "
            f"choose another --run-dir"
        ) from error
    with _locked(start, run_dir.start_lock):
        _flock(hold, fcntl.LOCK_SH, "a scheduler that is ending", run_dir.programs_lock)
        if not accepts(run_dir.client_socket):
            _start(run_dir, environment)
    return hold


def accepts(path: Path) -> bool:
    """Whether a process accepts connections at this socket now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.fspath(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError as error:
            raise _failure(f"the scheduler's socket {path} can't be used: {error}") from error
    return True


def without_preload(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that must be no client itself."""
    return {name: value for name, value in environment.items() if name != paths.LD_PRELOAD}


def _start(run_dir: paths.RunDir, environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "nvshare.scheduler", "--run-dir", os.fspath(run_dir.root)]
    command += ["--exit-when-idle", str(IDLE_SECONDS)]
    log = run_dir.log_file
    written = log.stat().st_size if log.exists() else 0
    pid = _in_background(command, log, without_preload(environment))
    wait_until_accepting(run_dir, lambda: _alive(pid), log, written)
    if _alive(pid):
        print(f"nvshare-ctl: started a scheduler in the background (pid {pid}, log {log})", file=sys.stderr, flush=True)


def wait_until_accepting(run_dir: paths.RunDir, alive: Callable[[], bool], log: Path, written: int) -> None:
    """Returns when a scheduler accepts clients; CommandError when the one that was started can't.

    What it says is in ``log``, after the first ``written`` bytes.
    """
    start = time.monotonic()
    ended: float | None = None
    while not accepts(run_dir.client_socket):
        now = time.monotonic()
        if ended is None and not alive():
            # It may have lost against one that somebody else started and that accepts clients in a moment.
            ended = now
        if now > start + _START_DEADLINE_SECONDS or (ended is not None and now > ended + _SETTLE_SECONDS):
            raise _not_started(ended is not None, log, written)
        time.sleep(_POLL_SECONDS)


def _in_background(command: list[str], log: Path, environment: Mapping[str, str]) -> int:
    """Starts a process that is nobody's child, and returns its pid.

    The command that takes this process's place must find no child that it did not make.
    """
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        code = 1
        try:
            with log.open("ab") as output:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                )
            os.write(writer, str(child.pid).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        pid = answer.read()
    os.waitpid(middle, 0)
    if not pid:
        raise _failure(f"the scheduler could not be started: {command[0]} or the log file {log} can't be opened")
    return int(pid)


def _alive(pid: int) -> bool:
    """Whether the process has not ended; one that nobody has reaped yet has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not select.select([descriptor], [], [], 0)[0]
    finally:
        os.close(descriptor)


def _not_started(ended: bool, log: Path, written: int) -> CommandError:
    what = "ended at once" if ended else f"accepts no clients after {_START_DEADLINE_SECONDS:g} s"
    lines = log.read_bytes()[written:].decode(errors="replace").splitlines()[-_LOG_LINES:]
    tail = "\n".join(f"  {line}" for line in lines) or "  (empty)"
    return _failure(f"the scheduler that was started {what}; the end of its log {log}:\n{tail}")


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def _locked(descriptor: int, path: Path) -> Iterator[None]:
    try:
        _flock(descriptor, fcntl.LOCK_EX, "another 'nvshare-ctl run' that is starting a scheduler", path)
        yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int, mode: int, whom: str, path: Path) -> None:
    deadline = time.monotonic() + 2 * _START_DEADLINE_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _failure(f"waited {2 * _START_DEADLINE_SECONDS:g} s for {whom} ({path})") from None
            time.sleep(_POLL_SECONDS)


def _failure(message: str) -> CommandError:
    return CommandError(message, ExitCode.NOT_STARTED)

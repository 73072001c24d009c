"""A scheduler for those who have none: found running, or started in the background.

Two locks in the run directory (flock(2), so that nothing stays behind when a process dies) order what happens:
``start.lock`` is held by the one that is starting a scheduler; ``programs.lock`` is shared by all programs that were
started with ``run``, and a scheduler that wants to end because it is idle must first get it for itself alone.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nvshare import paths
from nvshare.ctl.failure import ExitCode, Failure

IDLE_SECONDS = 60
"""A scheduler that was started here ends so long after its last client."""

_START_DEADLINE_SECONDS = 15.0
_SETTLE_SECONDS = 2.0
_POLL_SECONDS = 0.02
_LOG_LINES = 5


def ensure_scheduler(run_dir: paths.RunDir, environment: Mapping[str, str]) -> int:
    """Returns when a scheduler accepts clients.

    The file descriptor that it returns keeps an idle scheduler from ending for as long as it, or a copy that a child
    process inherited, is open. Failure: there is no scheduler and none could be started.
    """
    _make_directory(run_dir.root)
    with _exclusive(run_dir.start_lock):
        hold = os.open(run_dir.programs_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _flock(hold, fcntl.LOCK_SH, "an ending scheduler to be gone", run_dir.programs_lock)
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
            raise Failure(f"the scheduler's socket {path} can't be used: {error}", ExitCode.NOT_STARTED) from error
    return True


def _start(run_dir: paths.RunDir, environment: Mapping[str, str]) -> None:
    log = run_dir.log_file
    with log.open("ab") as output:
        scheduler = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "nvshare.scheduler",
                "--run-dir",
                os.fspath(run_dir.root),
                "--exit-when-idle",
                str(IDLE_SECONDS),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=without_preload(environment),
            start_new_session=True,
        )
    ended = 0.0
    deadline = time.monotonic() + _START_DEADLINE_SECONDS
    while not accepts(run_dir.client_socket):
        now = time.monotonic()
        if not ended and scheduler.poll() is not None:
            # It may have lost against one that somebody else started and that accepts clients in a moment.
            ended = now
        if now > deadline or (ended and now > ended + _SETTLE_SECONDS):
            raise _not_started(scheduler, log)
        time.sleep(_POLL_SECONDS)
    if ended:
        return
    print(f"nvshare-ctl: started a scheduler in the background (pid {scheduler.pid}, log {log})", file=sys.stderr)


def without_preload(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that must be no client itself."""
    return {name: value for name, value in environment.items() if name != paths.LD_PRELOAD}


def _not_started(scheduler: subprocess.Popen[bytes], log: Path) -> Failure:
    code = scheduler.poll()
    what = "accepts no clients yet" if code is None else f"ended with exit code {code}"
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    tail = "\n".join(f"  {line}" for line in lines) or "  (empty)"
    return Failure(f"the scheduler that was started {what}; the end of its log {log}:\n{tail}", ExitCode.NOT_STARTED)


def _make_directory(root: Path) -> None:
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(
            f"the run directory {root} can't be made ({error.strerror}); choose another with --run-dir",
            ExitCode.NOT_STARTED,
        ) from error


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Failure(
            f"{path} can't be written ({error.strerror}); choose another --run-dir", ExitCode.NOT_STARTED
        ) from error
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
                raise Failure(f"waited too long for {whom} ({path})", ExitCode.NOT_STARTED) from None
            time.sleep(_POLL_SECONDS)

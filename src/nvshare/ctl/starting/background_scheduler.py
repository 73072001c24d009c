"""A scheduler for ``nvshare-ctl run``: one that already runs, or one that is started in the background.

Two locks in the run directory (flock(2), so that nothing stays behind when a process dies) order what happens:
``start.lock`` is held by the one that is starting a scheduler; ``programs.lock`` is shared by all programs that were
started with ``run``, and a scheduler that wants to end because it is idle must first get it for itself alone.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from nvshare import paths, scheduler_process
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.process_state import is_stopped, remedy
from nvshare.program import complain
from nvshare.scheduler_process import START_DEADLINE_SECONDS, SchedulerStartError, accepts, answers
from nvshare.unix_sockets import distrust, listening_pid, named

_LOCK_DEADLINE_SECONDS = 2 * START_DEADLINE_SECONDS
_POLL_SECONDS = 0.02
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def ensure_scheduler(run_dirs: Sequence[paths.RunDir], environment: Mapping[str, str]) -> int | None:
    """Returns when a scheduler accepts clients in one of the run directories; if need be one is started in the last.

    The file descriptor that it returns keeps an idle scheduler from ending for as long as it, or a copy that a child
    process inherited, is open. None: the scheduler is another user's, who decides when it ends.
    CommandError: there is no scheduler and none could be started.
    """
    found = next(filter(answers, run_dirs), run_dirs[-1])
    try:
        hold = _ensure_scheduler(found, environment)
    except SchedulerStartError as error:
        raise CommandError(str(error), ExitCode.NOT_STARTED) from error
    if (pid := _listening(found.client_socket)) and is_stopped(pid):
        complain("nvshare-ctl", f"programs wait: the scheduler at {found.client_socket}, pid {pid}, is {remedy(pid)}")
    return hold


def _listening(path: Path) -> int | None:
    """As ``listening_pid``; None, too, where it can't be found out."""
    with suppress(OSError):
        return listening_pid(path)
    return None


def _ensure_scheduler(run_dir: paths.RunDir, environment: Mapping[str, str]) -> int | None:
    try:
        run_dir.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        if reason := distrust(run_dir.root):
            raise SchedulerStartError(f"{reason}; choose another --run-dir")
        hold = _open(run_dir.programs_lock)
        start = _open(run_dir.start_lock)
    except OSError as error:
        if accepts(run_dir.client_socket):
            return None
        raise SchedulerStartError(
            f"no scheduler runs and none can be started: {run_dir.root} can't be written ({error.strerror}); "
            f"choose another --run-dir"
        ) from error
    with _locked(start, run_dir.start_lock):
        _flock(hold, fcntl.LOCK_SH, "a scheduler that is ending", run_dir.programs_lock)
        if not accepts(run_dir.client_socket):
            _check_nobody_else_serves(run_dir)
            _start(run_dir, environment)
    return hold


def _check_nobody_else_serves(run_dir: paths.RunDir) -> None:
    """The original nvshare listens at one path only; ours at that one too, after it has begun to accept clients."""
    path = run_dir.legacy_socket
    pid = _listening(path)
    if pid is not None and not accepts(run_dir.client_socket):
        raise SchedulerStartError(
            f"another nvshare's scheduler, {named(pid)}, serves {path}; a second one would let programs overlap on "
            "a GPU: stop it first or choose another --run-dir"
        )


def _for_the_scheduler(environment: Mapping[str, str]) -> dict[str, str]:
    """The scheduler must not be a client itself, and NVSHARE_DEBUG is for the program: a log grows without an end."""
    return {name: value for name, value in environment.items() if name not in (paths.LD_PRELOAD, paths.DEBUG)}


def _start(run_dir: paths.RunDir, environment: Mapping[str, str]) -> None:
    command = scheduler_process.command(run_dir, "--exit-when-idle", str(scheduler_process.EXIT_WHEN_IDLE_SECONDS))
    log = run_dir.log_file
    written = log.stat().st_size if log.exists() else 0
    pid = _in_background(command, log, _for_the_scheduler(environment))
    scheduler_process.wait_until_accepting(run_dir, lambda: _alive(pid), log, written)
    if _alive(pid):
        print(f"nvshare-ctl: started a scheduler in the background (pid {pid}, log {log})", file=sys.stderr, flush=True)


def _in_background(command: list[str], log: Path, environment: Mapping[str, str]) -> int:
    """Starts a process that is not a child of this one, and returns its pid.

    The command that takes this process's place must find no child that it did not make.
    """
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        code = 1
        try:
            with os.fdopen(os.open(log, _APPEND, 0o644), "ab") as output:
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
        raise SchedulerStartError(
            f"the scheduler could not be started: {command[0]} or the log file {log} can't be opened"
        )
    return int(pid)


def _alive(pid: int) -> bool:
    """Whether the process has not ended; a zombie has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not select.select([descriptor], [], [], 0)[0]
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


@contextmanager
def _locked(descriptor: int, path: Path) -> Iterator[None]:
    try:
        _flock(descriptor, fcntl.LOCK_EX, "another 'nvshare-ctl run' that is starting a scheduler", path)
        yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int, mode: int, whom: str, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_DEADLINE_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SchedulerStartError(f"waited {_LOCK_DEADLINE_SECONDS:g} s for {whom} ({path})") from None
            time.sleep(_POLL_SECONDS)

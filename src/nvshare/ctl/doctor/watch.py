"""Runs a command and looks at it and at all that it starts, until it has ended."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pynvml  # type: ignore[import-untyped]

from nvshare import paths
from nvshare.ctl.doctor.observation import Seen
from nvshare.ctl.doctor.proc import Family, elf_of, in_first_pid_namespace, is_privileged
from nvshare.ctl.errors import CommandError
from nvshare.ctl.starting.execution import execute
from nvshare.nvml import running, scan
from nvshare.program import complain
from nvshare.protocol import report
from nvshare.protocol.report import Report

_TICK_SECONDS = 0.01
"""What lives for longer is seen."""
_SLOW_TICK_SECONDS = 0.05
_SLOW_AFTER_SECONDS = 30.0
_NVML_SECONDS = 0.1
_SET_CHILD_SUBREAPER = 36
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_BY_KERNEL = 0x80
"""SI_KERNEL of sigaction(2)."""
_FOR_ALL = 0o1777


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended."""

    status: int
    """Its exit status; 128 and the signal's number where one ended it."""
    signal: int
    """That ended it; 0: none."""
    left: int
    """Processes that it started and that still live."""
    seen: tuple[Seen, ...]
    reports: tuple[Report, ...]


def run(executable: str, command: list[str], environment: Mapping[str, str]) -> Run:
    """Runs the command as ``nvshare-ctl run`` does, as a child; its files are this process's, and untouched."""
    folder = Path(tempfile.mkdtemp(prefix="nvshare-doctor-"))
    if os.geteuid() == 0:
        # A program may become another user before it uses a GPU.
        folder.chmod(_FOR_ALL)
    try:
        with _adopting_orphans():
            child = _start(executable, command, {**environment, paths.REPORT: str(folder)})
            family = Family(os.getpid(), environment.get(paths.SIMGPU_DIR, ""))
            with _signals_passed_on(child) as pass_on:
                status = _watch(child, family, pass_on, own_pids=_sees_pids_of_nvml(environment))
            left = family.living()
        code = os.waitstatus_to_exitcode(status)
        seen = _with_command(family.all(), child, executable, command)
        return Run(code if code >= 0 else 128 - code, max(0, -code), left, seen, _reports(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_command(seen: tuple[Seen, ...], pid: int, executable: str, command: list[str]) -> tuple[Seen, ...]:
    """And the command itself, with what its file says, where it ended before that was looked at."""
    path = Path(executable).resolve()
    said = elf_of(path)
    if said is None:
        return seen
    unseen = Seen(pid, os.getpid(), False, " ".join(command), str(path), said, is_privileged(path))
    own = [one for one in seen if one.pid == pid and one.executable == str(path)]
    if not own:
        return (unseen, *seen)
    return tuple(replace(one, elf=said, privileged=unseen.privileged) if one in own else one for one in seen)


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Processes whose parents end become this one's children: otherwise nobody would know that they belong here."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _start(executable: str, command: list[str], environment: Mapping[str, str]) -> int:
    """Returns when the child has become the command, or has ended: what it was before is no process of the command."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Exec closes the second one.
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader, "rb") as becoming:
            becoming.read()
        return child
    try:
        execute(executable, command, environment)
    except CommandError as error:
        complain("nvshare-ctl", str(error))
        os._exit(error.code)
    finally:
        os._exit(1)


@contextmanager
def _signals_passed_on(child: int) -> Iterator[Callable[[], None]]:
    """A function that passes on to the command the signals that came for this process. Until then they wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)

    def pass_on() -> None:
        while (came := signal.sigtimedwait(_PASSED_ON, 0)) is not None:
            # What a terminal sends, the kernel sends to the command as well.
            if came.si_code != _BY_KERNEL:
                with suppress(ProcessLookupError):
                    os.kill(child, came.si_signo)

    try:
        yield pass_on
    finally:
        # The command has ended.
        while signal.sigtimedwait(_PASSED_ON, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _sees_pids_of_nvml(environment: Mapping[str, str]) -> bool:
    """Whether NVML's pids are those of this pid namespace. A real driver's are those of the machine."""
    return paths.SIMGPU_DIR in environment or in_first_pid_namespace()


def _watch(child: int, family: Family, pass_on: Callable[[], None], *, own_pids: bool) -> int:
    """Until the command ends; its wait status."""
    contexts = _Contexts()
    if own_pids:
        contexts.start()
    ended, begun = os.pidfd_open(child), time.monotonic()
    try:
        while True:
            family.look()
            family.contexts(*contexts.found)
            slow = time.monotonic() - begun > _SLOW_AFTER_SECONDS
            readable, _, _ = select.select([ended], [], [], _SLOW_TICK_SECONDS if slow else _TICK_SECONDS)
            if readable:
                return _reap(child)
            pass_on()
            _reap_orphans(child)
    finally:
        os.close(ended)
        contexts.stop()


def _reap(child: int) -> int:
    return os.waitpid(child, 0)[1]


def _reap_orphans(child: int) -> None:
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == child:
            return
        os.waitpid(ended.si_pid, 0)


class _Contexts(threading.Thread):
    """Asks NVML again and again who has a context. A thread, because a sick driver may not answer."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found: tuple[frozenset[int], float] = frozenset(), 0.0
        """Who had one, and when it was asked."""
        self._over = threading.Event()

    def run(self) -> None:
        """The thread; without NVML it ends."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return
        while not self._over.wait(_NVML_SECONDS):
            with suppress(pynvml.NVMLError):
                asked = time.monotonic()
                found, _failed = scan(lambda _number, gpu, _failed: _pids(gpu))
                self.found = frozenset(found), asked

    def stop(self) -> None:
        """It ends soon, if NVML lets it."""
        self._over.set()


def _pids(gpu: object) -> list[int]:
    return [process.pid for process in running(gpu)]


def _reports(folder: Path) -> tuple[Report, ...]:
    found = []
    for path in sorted(folder.iterdir()):
        with suppress(OSError):
            if (said := report.read(_content(path))) is not None:
                found.append(said)
    return tuple(found)


def _content(path: Path) -> bytes:
    """Of a file of the folder, where others may have put something else."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(report.REPORT_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""

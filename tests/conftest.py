"""Fixtures for all tests: the compiled libraries, a simulated GPU, a running scheduler, the tools of the system."""

from __future__ import annotations

import os
import platform
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

import build_native
from nvshare import paths, scheduler_process, simgpu
from tests import wanted
from tests.polling import poll_until

SOURCE_ROOT = build_native.SOURCES

# How long an example takes is a matter of the machine.
settings.register_profile("untimed", settings.default, deadline=None)
settings.load_profile("untimed")


def _ignore(_signal: int, _frame: object) -> None:
    """Unlike a signal that is ignored, one that has a handler does what it always does in the programs of tests."""


# Whoever starts the tests in the background has them ignored, and a program's children with it.
for _signal in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _ignore)

DESCRIPTORS = 20_000
"""Open files that a test may have; a user's shell allows 1024 unless it is asked for more."""
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if 0 <= _soft < DESCRIPTORS:
    _most = DESCRIPTORS if _hard == resource.RLIM_INFINITY else min(DESCRIPTORS, _hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _hard))

TIMEOUT = pytest.StashKey[object]()
"""What pytest-timeout was told of a test."""


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> None:
    """Keeps the time that a test has: pytest-timeout sets the timer once, however often the test is run."""
    item.stash[TIMEOUT] = settings


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that is run once more has its time again, else it could hang for ever."""
    if getattr(item, "execution_count", 1) > 1 and TIMEOUT in item.stash:
        item.ihook.pytest_timeout_cancel_timer(item=item)
        item.ihook.pytest_timeout_set_timer(item=item, settings=item.stash[TIMEOUT])


@dataclass(frozen=True, slots=True)
class Libraries:
    """The compiled libraries of one machine."""

    shim: Path
    cuda: Path
    nvml: Path
    cuda_by_name: Path

    @property
    def driver_folder(self) -> Path:
        """What LD_LIBRARY_PATH needs for the simulated driver."""
        return self.cuda.parent


def libraries_of(target: str) -> Libraries:
    """Brings a target of build_native.py up to date."""
    wanted.tool(build_native.TARGETS[target].compiler[0])
    try:
        return Libraries(*build_native.build(build_native.TARGETS[target]))
    except subprocess.CalledProcessError:
        pytest.fail(f"the libraries for {target} do not compile; see: build_native.py {target}", pytrace=False)


@pytest.fixture(scope="session")
def libraries() -> Libraries:
    """The libraries for this machine, as they are shipped."""
    return libraries_of(platform.machine())


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Finds a program of the system; see ``wanted``."""
    return wanted.tool


@pytest.fixture
def system_folder() -> Callable[[Path], Path]:
    """Finds a folder that a package of the system brings; see ``wanted``."""
    return wanted.folder


@pytest.fixture
def run_dir() -> Iterator[paths.RunDir]:
    """An empty run directory with a path short enough for the sockets in it."""
    with tempfile.TemporaryDirectory(prefix="nvshare-") as folder:
        yield paths.RunDir(Path(folder))


@pytest.fixture
def environment(libraries: Libraries, run_dir: paths.RunDir, tmp_path: Path) -> dict[str, str]:
    """The environment of a process that sees a simulated GPU of its own and whose scheduler is that of ``run_dir``.

    It does not load the shim; ``LD_PRELOAD=str(libraries.shim)`` does. The libraries are compiled before.
    """
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    own = {"PYTHONPATH": str(SOURCE_ROOT), paths.RUN_DIR: str(run_dir.root)}
    return inherited | own | simgpu.environment(tmp_path / "simgpu")


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A running nvshare-scheduler."""

    process: subprocess.Popen[bytes]
    run_dir: paths.RunDir

    def accepts_or_ended(self) -> bool:
        """Whether its start is over, one way or the other."""
        return scheduler_process.accepts(self.run_dir.client_socket) or self.process.poll() is not None

    def kill(self) -> None:
        """Ends it without a chance to clean up."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start_scheduler(environment: dict[str, str], run_dir: paths.RunDir) -> Iterator[Callable[..., Scheduler]]:
    """Starts a scheduler in ``run_dir`` with the given options; returns once it answers. All end after the test."""
    started: list[Scheduler] = []

    def start(*options: str) -> Scheduler:
        command = scheduler_process.command(run_dir, *options)
        scheduler = Scheduler(subprocess.Popen(command, env=environment), run_dir)
        started.append(scheduler)
        poll_until(scheduler.accepts_or_ended, "the scheduler answers", timeout=30)
        assert scheduler.process.poll() is None, f"the scheduler ended with status {scheduler.process.returncode}"
        return scheduler

    yield start
    for scheduler in started:
        scheduler.process.send_signal(signal.SIGTERM)
    for scheduler in started:
        scheduler.process.wait(10)

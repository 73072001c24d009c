"""Cases of cuInit, each in a fresh process with one thread: init_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.shim.programs.driver_calls import DRIVER, call, count, fail

FIRST_OF_OURS = 256
"""Files of the library's have numbers from here on."""
FEW = 64
INVALID_VALUE = 1


@dataclass(frozen=True, slots=True)
class Process:
    """What this process is to the kernel."""

    threads: int
    has_barriers: bool
    places: int
    """How many files its table has room for without being made longer."""
    files: frozenset[str]

    @classmethod
    def now(cls) -> Process:
        """As it is."""
        lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
        status = {name: value for name, _, value in lines}
        files = frozenset(file.name for file in Path("/proc/self/fd").iterdir())
        return cls(int(status["Threads"]), bool(DRIVER.spy_has_barriers()), int(status["FDSize"]), files)


@ctypes.CFUNCTYPE(None)
def _in_the_driver() -> None:
    _seen.append(Process.now())


_seen: list[Process] = []
"""As the driver's cuInit found it."""


def _initialize() -> Process:
    """Calls cuInit, and returns what the driver found."""
    DRIVER.spy_at_init(_in_the_driver)
    assert call("cuInit", 0) == 0
    return _seen.pop()


def what_costs_with_threads_is_done_before() -> None:
    """When the driver begins, and may start threads, the process has its barriers, and room for the library's files."""
    before = Process.now()
    assert (before.threads, before.has_barriers) == (1, False)
    assert before.places <= FIRST_OF_OURS
    found = _initialize()
    assert found.has_barriers
    assert found.places > FIRST_OF_OURS


def with_threads_it_is_left_to_the_first_device() -> None:
    """Most programs that ask for devices never use one, and would wait for nothing."""
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    found = _initialize()
    assert (found.threads, found.has_barriers) == (2, False)
    assert found.places <= FIRST_OF_OURS
    event.set()
    thread.join()


def nothing_is_started_or_opened() -> None:
    """The process has neither a thread nor a file more, when the driver begins and afterwards."""
    before = Process.now()
    for now in (_initialize(), Process.now()):
        assert (now.threads, now.files) == (1, before.files)


def a_forked_child_does_it_for_itself() -> None:
    """A child of a process that never called it finds the same as its parent would."""
    child = os.fork()
    if child == 0:
        found = _initialize()
        os._exit(0 if found.has_barriers and found.places > FIRST_OF_OURS else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not Process.now().has_barriers


def the_driver_answers() -> None:
    """The answer is the driver's, and errno is the program's."""
    ctypes.set_errno(77)
    fail("cuInit")
    assert call("cuInit", 0) == INVALID_VALUE
    fail(None)
    assert call("cuInit", 0) == 0
    assert count("cuInit") == 2
    assert ctypes.get_errno() == 77


def where_few_files_are_allowed() -> None:
    """A process that may not have files with such numbers goes on without."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW))
    found = _initialize()
    assert found.has_barriers
    assert found.places <= FIRST_OF_OURS


if __name__ == "__main__":
    globals()[sys.argv[1]]()

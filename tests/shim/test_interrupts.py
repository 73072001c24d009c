"""Signals for a program that waits at a closed gate."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nvshare import paths
from tests.pipes import said_to_the_end
from tests.polling import poll_until
from tests.shim.children import PROGRAMS, Children
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import Peer
from tests.shim.thread_state import asleep

LOADERS = ["CDLL", "PyDLL"]
SAID = "interrupted by a signal's handler while waiting for the GPU"


@dataclass(slots=True)
class Waiting:
    """A program that waits for the lock."""

    process: subprocess.Popen[str]
    peer: Peer = field(init=False)

    def line(self) -> str:
        """The next line of its output."""
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def sleeps(self) -> None:
        """Waits until its first thread sleeps."""
        poll_until(lambda: asleep(self.process.pid, self.process.pid), "the program sleeps")

    def end(self) -> tuple[int, str]:
        """Waits for its end: its exit status and the rest of its output, errors included."""
        output, errors = said_to_the_end(self.process, 20)
        return self.process.returncode, output + errors


@pytest.fixture
def waiting(children: Children, run_dir: paths.RunDir) -> Iterator[Callable[..., Waiting]]:
    """Starts a program and waits until it waits for the lock."""
    started: list[Waiting] = []
    with FakeScheduler(run_dir.client_socket) as scheduler:

        def start(*command: str | Path) -> Waiting:
            pipe = subprocess.PIPE
            environment = children.environment | {paths.MEMORY: "native"}
            process = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
            program = Waiting(process)
            started.append(program)
            program.peer = scheduler.register()
            program.peer.expect_wanting()
            program.sleeps()
            return program

        yield start
        for program in started:
            program.process.kill()
            program.process.communicate()


@pytest.fixture
def python(waiting: Callable[..., Waiting]) -> Callable[[str, str], Waiting]:
    """Starts ``programs/interrupted.py``."""
    return lambda loader, handler: waiting(sys.executable, PROGRAMS / "interrupted.py", loader, handler)


@pytest.mark.parametrize("loader", LOADERS)
def test_ctrl_c_ends_the_wait(python: Callable[[str, str], Waiting], loader: str) -> None:
    """The call fails, and KeyboardInterrupt is raised where the program made it."""
    program = python(loader, "none")
    program.process.send_signal(signal.SIGINT)
    status, output = program.end()
    assert status == -signal.SIGINT
    assert SAID in output
    assert 'say("result", launch())' in output
    assert output.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("loader", LOADERS)
def test_handler_that_ends_the_program(python: Callable[[str, str], Waiting], loader: str) -> None:
    """A handler of SIGTERM that calls sys.exit decides about the exit status."""
    program = python(loader, "leave")
    program.process.send_signal(signal.SIGTERM)
    status, output = program.end()
    assert (status, "result" in output) == (7, False)
    assert SAID in output


@pytest.mark.parametrize("loader", LOADERS)
def test_handler_that_goes_on(python: Callable[[str, str], Waiting], loader: str) -> None:
    """A handler that raises nothing runs while the program waits, as often as it must; the wait goes on."""
    program = python(loader, "note")
    for _ in range(3):
        program.sleeps()
        program.process.send_signal(signal.SIGTERM)
        assert program.line() == "handled 15"
    program.peer.grant()
    status, output = program.end()
    assert (status, output) == (0, "result 0\n")


def test_second_thread_goes_on(python: Callable[[str, str], Waiting]) -> None:
    """Ctrl-C is for the main thread; a second one that waits for the GPU goes on."""
    program = python("CDLL", "thread")
    program.process.send_signal(signal.SIGINT)
    assert program.line() == "interrupted"
    program.peer.grant()
    assert program.end() == (0, "result 0\n")


def test_program_without_python(waiting: Callable[..., Waiting], compile_c: Callable[..., Path], spy: Path) -> None:
    """Its handlers run by themselves, and its wait goes on."""
    program = waiting(compile_c("programs/interrupted.c", "interrupted", str(spy / "libcuda.so.1")))
    program.process.send_signal(signal.SIGTERM)
    assert program.line() == "handled 15"
    program.peer.grant()
    assert program.end() == (0, "result 0\n")

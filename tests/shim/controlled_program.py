"""A program under the library that does what a test tells it to."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass, field

from tests.polling import poll_until
from tests.shim.children import PROGRAMS
from tests.shim.lock_server import TIMEOUT


@dataclass(slots=True)
class ControlledProgram:
    """The program of ``programs/command_loop.py``."""

    environment: dict[str, str]
    process: subprocess.Popen[str] = field(init=False)
    answers: queue.Queue[str] = field(default_factory=queue.Queue)
    errors: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "command_loop.py")],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        assert self.process.stderr
        for stream, keep in ((self.process.stdout, self.answers.put), (self.process.stderr, self.errors.append)):
            reader = threading.Thread(
                target=lambda lines, do: [do(line.rstrip("\n")) for line in lines], args=(stream, keep)
            )
            reader.start()
            self.readers.append(reader)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def begin(self, command: str) -> None:
        """Gives a command and does not wait for its answer."""
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """The next answer."""
        return self.answers.get(timeout=TIMEOUT)

    def do(self, command: str) -> str:
        """Gives a command and returns its answer."""
        self.begin(command)
        return self.answer()

    def said(self, text: str) -> str:
        """Waits for a line on stderr that contains the text."""
        return poll_until(lambda: next((line for line in self.errors if text in line), ""), f"stderr says {text!r}")

    def end(self) -> None:
        """Ends it by force, whatever it waits for."""
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def alive(pid: int) -> bool:
    """Whether the process exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False

"""A program under the library that does what a test tells it to."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.polling import poll_until
from tests.shim.children import PROGRAMS
from tests.shim.lock_server import TIMEOUT, Peer
from tests.shim.thread_state import asleep, client_waits, unread_in_pipe


@dataclass(slots=True)
class ControlledProgram:
    """One of ``programs/`` that does what its stdin says."""

    environment: dict[str, str]
    prefix: Sequence[str] = ()
    """What comes before its command."""
    name: str = "command_loop.py"
    arguments: Sequence[str] = ()
    compiled: bool = False
    """It is no program of Python's; ``name`` is its path."""
    process: subprocess.Popen[bytes] = field(init=False)
    errors: list[str] = field(default_factory=list)
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [*self.prefix, *([] if self.compiled else [sys.executable]), str(PROGRAMS / self.name), *self.arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.reader = threading.Thread(target=self._read_errors)
        self.reader.start()

    def _read_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.errors.append(line.decode().rstrip("\n"))

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def begin(self, command: str) -> None:
        """Gives a command and does not wait for its answer."""
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n".encode())

    def answered(self, seconds: float = 0) -> bool:
        """Whether there is an answer, or comes within that time."""
        assert self.process.stdout
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def answer(self) -> str:
        """The next answer."""
        assert self.process.stdout
        assert self.answered(TIMEOUT), "no answer"
        return self.process.stdout.readline().decode().rstrip("\n")

    def do(self, command: str) -> str:
        """Gives a command and returns its answer."""
        self.begin(command)
        return self.answer()

    def waits(self) -> None:
        """Waits until the program has read its last command and sleeps; then it has not answered."""
        stdin = self.process.stdin
        assert stdin
        poll_until(lambda: not unread_in_pipe(stdin) and asleep(self.pid, self.pid), "the program sleeps")
        assert not self.answered(), "the program did not wait"

    def client_waits(self, peer: Peer) -> None:
        """Waits until the library has read all that the peer said and sleeps; then it has not answered."""
        client_waits(peer, self.pid)

    def said(self, text: str) -> str:
        """Waits for a line on stderr that contains the text."""
        return poll_until(lambda: next((line for line in self.errors if text in line), ""), f"stderr says {text!r}")

    def descriptors(self) -> list[str]:
        """Its open files, but for sockets, which come and go."""
        links = [str(entry.readlink()) for entry in Path(f"/proc/{self.pid}/fd").iterdir()]
        return [link for link in links if not link.startswith("socket:")]

    def end(self) -> None:
        """Ends it by force, whatever it waits for."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
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

"""A program in a terminal of its own: a pty that the test reads and types into."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any


class Terminal:
    """The test's end of the terminal."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        os.set_blocking(descriptor, False)
        self.process = process
        self._descriptor = descriptor
        self._output = bytearray()

    def output(self) -> str:
        """Everything that was written so far, also after the program's end."""
        with suppress(OSError):
            self._output += os.read(self._descriptor, 1 << 20)
        return self._output.decode(errors="replace")

    def press(self, keys: bytes) -> None:
        """As from a keyboard; ``b"\\x03"`` is Ctrl-C."""
        os.write(self._descriptor, keys)


@contextmanager
def in_terminal(command: Sequence[str], environment: dict[str, str], **options: Any) -> Iterator[Terminal]:
    """Starts the program; it is killed when the block ends. ``options`` are Popen's."""
    ours, its = pty.openpty()
    process = subprocess.Popen(command, env=environment, stdin=its, stdout=its, stderr=its, **options)
    os.close(its)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

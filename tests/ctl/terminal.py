"""A program in a terminal of its own: a pty that the test reads and types into."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

_LINE = re.compile(r"\x1b\[2J|\x1b\[(\d+);1H\x1b\[2K([^\n]*?)(?=\x1b\[\d+;1H|\x1b\[2J|\x1b\[\?|\x1b\[0m\x1b\[\?|\Z)")
"""How a program that draws lines by their numbers writes one, or clears them all."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """The test's end of the terminal."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        os.set_blocking(descriptor, False)
        self.process = process
        self._descriptor = descriptor
        self._output = bytearray()

    def output(self) -> str:
        """Everything that was written so far, also after the program's end."""
        # A terminal gives no more than a page at a time.
        with suppress(OSError):
            while piece := os.read(self._descriptor, 1 << 20):
                self._output += piece
        return self._output.decode(errors="replace")

    def lines(self) -> list[str]:
        """What is on the screen, of a program that draws lines by their numbers."""
        shown: dict[int, str] = {}
        for drawn in _LINE.finditer(self.output()):
            if drawn[1] is None:
                shown.clear()
            else:
                shown[int(drawn[1])] = _STYLE.sub("", drawn[2]).rstrip()
        return [shown.get(number, "") for number in range(1, max(shown, default=0) + 1)]

    def screen(self) -> str:
        """The same as one text."""
        return "\n".join(self.lines())

    def modes(self) -> list[Any]:
        """As tcgetattr says: echo, line by line, which keys are signals."""
        return termios.tcgetattr(self._descriptor)

    def resize(self, columns: int, lines: int) -> None:
        """As when a person pulls at the window."""
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """As from a keyboard; ``b"\\x03"`` is Ctrl-C."""
        os.write(self._descriptor, keys)


@contextmanager
def in_session(
    command: Sequence[str], environment: dict[str, str], columns: int = 80, lines: int = 24
) -> Iterator[Terminal]:
    """The same as the first process of a session whose terminal it is: Ctrl-C, Ctrl-Z and the size reach it."""

    def take() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with in_terminal(command, environment, start_new_session=True, preexec_fn=take, size=(columns, lines)) as terminal:
        yield terminal


@contextmanager
def in_terminal(
    command: Sequence[str], environment: dict[str, str], size: tuple[int, int] = (0, 0), **options: Any
) -> Iterator[Terminal]:
    """Starts the program; it is killed when the block ends. ``size``: columns and lines; ``options`` are Popen's."""
    ours, its = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    process = subprocess.Popen(command, env=environment, stdin=its, stdout=its, stderr=its, **options)
    os.close(its)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

"""A program that has the whole terminal: keys, its size, signals. In the end it is as it was, whatever the end was.

rich draws. What it has not is here: keys, and what signals mean to a program that changed the terminal. Of the
libraries that have both, textual and prompt_toolkit took twice the processor time for the same screen.
"""

from __future__ import annotations

import io
import os
import re
import select
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from rich.console import Console, RenderableType

from nvshare import interrupts
from nvshare.ctl.errors import CommandError

_IN, _OUT = 0, 1
# The other screen, no cursor, no wrapping; and back.
_ENTER: Final = b"\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE: Final = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_WOKEN: Final = 0
"""In the pipe of signals' numbers: another thread has something."""
_SIGNALS: Final = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
_NAMES: Final = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x1b[Z": "up",
    "\t": "down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}


class Terminal:
    """The terminal, while it is this program's; see ``whole_terminal``."""

    def __init__(self) -> None:
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._before: list[Any] = []
        """The terminal's modes; empty: it is as it was."""
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, at least one of each."""
        with suppress(OSError):
            columns, lines = os.get_terminal_size(_OUT)
            if columns and lines:
                return columns, lines
        return 80, 24

    def draw(self, what: RenderableType) -> None:
        """Shows it from the first line on, without what has no room. Lines that are as before are not written."""
        columns, height = self.size
        if (columns, height) != self._size:
            self._size, self._drawn = (columns, height), []
        console = Console(
            file=io.StringIO(), force_terminal=True, width=columns, height=height, legacy_windows=False, highlight=False
        )
        with console.capture() as captured:
            console.print(what, end="")
        lines = captured.get().split("\n")[:height]
        parts = [] if self._drawn else ["\x1b[2J"]
        for number, line in enumerate(lines + [""] * (len(self._drawn) - len(lines))):
            if number >= len(self._drawn) or self._drawn[number] != line:
                parts.append(f"\x1b[{number + 1};1H\x1b[2K{line}")
        self._drawn = lines
        _write("".join(parts).encode(sys.stdout.encoding, sys.stdout.errors or "replace"))

    def wait(self, seconds: float) -> list[str]:
        """Waits at most so long for keys, for a signal that changes the screen, or for ``wake``; the keys' names."""
        ready, _, _ = select.select([_IN, self._reading], [], [], seconds)
        if self._reading in ready:
            for number in os.read(self._reading, 1024):
                self._act(number)
        return _keys() if _IN in ready else []

    def wake(self) -> None:
        """``wait`` returns soon. For other threads."""
        with suppress(BlockingIOError):
            os.write(self._writing, bytes([_WOKEN]))

    def enter(self) -> None:
        """Takes the terminal."""
        if not self._before:
            self._before = termios.tcgetattr(_IN)
        # Keys as they are typed; Ctrl-S stops nothing.
        modes = [*self._before[:6], [*self._before[6]]]
        modes[0] &= ~termios.IXON
        modes[3] &= ~(termios.ECHO | termios.ICANON)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(_IN, termios.TCSANOW, modes)
        self._drawn = []
        _write(_ENTER)

    def leave(self) -> None:
        """Puts the terminal back as it was."""
        if self._before:
            # A terminal that is gone needs nothing.
            with suppress(OSError, termios.error):
                # What nobody has read yet is of no use any more, and a write would wait for it.
                termios.tcflush(_OUT, termios.TCOFLUSH)
                _write(_LEAVE)
                termios.tcsetattr(_IN, termios.TCSANOW, self._before)
            self._before = []

    def listen(self) -> None:
        """Takes the signals that change the screen."""
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, _only_wake)

    def _act(self, number: int) -> None:
        match number:
            case signal.SIGTSTP:
                self.leave()
                signal.signal(signal.SIGTSTP, signal.SIG_DFL)
                signal.raise_signal(signal.SIGTSTP)
                # Here it goes on when somebody continues it, or at once where no shell could do that.
                signal.signal(signal.SIGTSTP, _only_wake)
                self.enter()
            case signal.SIGCONT:
                # Whoever had the terminal meanwhile may have changed it.
                self.enter()
            case _:
                pass


@contextmanager
def whole_terminal(instead: str) -> Iterator[Terminal]:
    """The terminal of standard input and output; CommandError, which names what to use ``instead``, where that is none.

    A signal that ends the program does so after the block, as if it had not been taken.
    """
    if not (os.isatty(_IN) and os.isatty(_OUT)):
        raise CommandError(f"top needs a terminal; for scripts and files there is: {instead}")
    if Console().is_dumb_terminal:
        raise CommandError(f"top needs a terminal that draws over what is there, unlike TERM=dumb; there is: {instead}")
    terminal = Terminal()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # Those that end the program raise: it may be anywhere, also in a write that waits.
    with interrupts.Raised() as raised:
        try:
            try:
                terminal.listen()
                terminal.enter()
                yield terminal
            finally:
                raised.no_more()
        finally:
            terminal.leave()
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)


def _keys() -> list[str]:
    typed = b""
    with suppress(OSError):
        typed = os.read(_IN, 1024)
    if not typed:
        # The other end of the terminal is gone.
        raise interrupts.Ended(signal.SIGHUP)
    return [_NAMES.get(key, key) for key in _KEY.findall(typed.decode(errors="replace"))]


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_OUT, data) :]


def _only_wake(_number: int, _frame: FrameType | None) -> None:
    """The signal's number is in the pipe."""

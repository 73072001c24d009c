"""How a command ends that can't do what was asked: with one line on stderr and an exit code that says why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum

from nvshare.program import complain


class ExitCode(IntEnum):
    """What scripts may rely on. A wrong command line gives 2."""

    FAILED = 1
    """The request was understood and refused, or the demo saw something wrong."""
    NO_SCHEDULER = 3
    """No scheduler runs for this run directory."""
    NOT_PERMITTED = 4
    """A scheduler is there, but this user may not command it."""
    NOT_STARTED = 125
    """``run`` failed before the command was started."""
    NOT_EXECUTABLE = 126
    """``run`` found the command but may not execute it."""
    NOT_FOUND = 127
    """``run`` did not find the command."""
    INTERRUPTED = 130
    """Ctrl-C."""
    UNREAD = 141
    """Whoever read the output has gone, as in ``| head -1``: it ends by SIGPIPE, which shells show so."""


class CommandError(Exception):
    """The user's request can't be met: says what was wrong, with what value, and what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def ending(name: str, work: Callable[[], None]) -> Callable[[], None]:
    """The work of a program, which ends it with the line and the exit code of a CommandError."""

    def ended() -> None:
        try:
            work()
        except CommandError as failure:
            complain(name, str(failure))
            sys.exit(failure.code)

    return ended

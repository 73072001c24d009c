"""What an operator may command: which values are allowed, and how others are refused."""

from __future__ import annotations

from nvshare.scheduler.core.settings import LONGEST_QUANTUM, SHORTEST_QUANTUM


class InvalidCommandError(Exception):
    """A command's value is not allowed; the message names it and what is allowed."""


class UnknownDeviceError(InvalidCommandError):
    """A command names a device that this scheduler does not know."""


def check_quantum(seconds: float) -> None:
    """InvalidCommandError unless a quantum of ``seconds`` is allowed."""
    if not SHORTEST_QUANTUM <= seconds <= LONGEST_QUANTUM:
        allowed = f"from {SHORTEST_QUANTUM:g} to {LONGEST_QUANTUM:g}"
        raise InvalidCommandError(f"quantum {seconds:g} s is not allowed; {allowed} s is")

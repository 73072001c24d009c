"""Starts sleepers, hears what came of them, and ends those whose target has ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nvshare.log import Log
from nvshare.scheduler.sleeping.sleeper import End, Goal, command

_READ_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sleeper says."""

    end: End
    step: str = "-"
    """The one that failed."""
    result: int = 0
    """Of that step."""
    seconds: float = 0.0
    """That the driver took."""
    reason: str = ""
    """Why it is UNABLE."""


class Running(Protocol):
    """A sleeper at work."""

    def give_up(self) -> None:
        """Nobody needs it any more: it is ended, and says nothing."""


class Start(Protocol):
    """What begins a sleeper."""

    def __call__(self, pid: int, goal: Goal, done: Callable[[Outcome | None], None]) -> Running:
        """Returns at once; ``done`` is called in the event loop later. None: it died before it said anything.

        OSError where there can be none now.
        """


class Sleepers:
    """All sleepers at work."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log) -> None:
        self._loop = loop
        self._log = log
        self._running: set[_Sleeper] = set()

    def start(self, pid: int, goal: Goal, done: Callable[[Outcome | None], None]) -> Running:
        """See ``Start``."""
        process = subprocess.Popen(
            command(pid, goal),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # What a terminal sends to the scheduler is not for them.
            start_new_session=True,
        )
        sleeper = _Sleeper(process)
        self._running.add(sleeper)
        self._loop.add_reader(sleeper.fd, self._on_readable, sleeper, done)
        return sleeper

    def stop(self) -> None:
        """Ends all of them. Whoever is between two states then is looked at by the next scheduler."""
        for sleeper in self._running:
            self._loop.remove_reader(sleeper.fd)
            sleeper.give_up()

    def _on_readable(self, sleeper: _Sleeper, done: Callable[[Outcome | None], None]) -> None:
        data = os.read(sleeper.fd, _READ_BYTES)
        if data:
            sleeper.said += data
            return
        self._loop.remove_reader(sleeper.fd)
        self._running.discard(sleeper)
        sleeper.close()
        if sleeper.given_up:
            return
        outcome = _outcome(sleeper.said)
        if outcome is None:
            self._log.warning("a sleeper died", said=sleeper.said.decode(errors="replace")[-_READ_BYTES:])
        done(outcome)


class _Sleeper:
    """See ``Running``."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process, self._stdout = process, process.stdout
        self.said = b""
        self.given_up = False

    @property
    def fd(self) -> int:
        return self._stdout.fileno()

    def give_up(self) -> None:
        """See ``Running``. Its end is heard as that of any other."""
        self.given_up = True
        self._process.kill()

    def close(self) -> None:
        """It has closed its output, so it has ended, or is just ending."""
        self._stdout.close()
        self._process.wait()


def _outcome(said: bytes) -> Outcome | None:
    try:
        end, step, result, seconds, *reason = said.decode().split(maxsplit=4)
        return Outcome(End(end), step, int(result), float(seconds), "".join(reason).strip())
    except ValueError:
        return None

"""Starts sleepers, hears what came of them, and ends those whose target has ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from nvshare.log import Log
from nvshare.scheduler.sleeping.sleeper import End, Goal, command

_READ_BYTES = 4096
_AT_ONCE = 8
_YOUNG_SECONDS = 2.0
_BURY_SECONDS = 0.1


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
    """A sleeper at work, or in line."""

    def give_up(self) -> None:
        """Nobody needs it any more: it is ended, and says nothing."""


Done = Callable[[Outcome | None], None]
"""Is called in the event loop. None: it died before it said anything, or there could be none."""


class Start(Protocol):
    """What begins a sleeper."""

    def __call__(self, pid: int, goal: Goal, done: Done) -> Running:
        """Returns at once; ``done`` is called later."""


class Sleepers:
    """All sleepers. Only so many begin at a time, since each takes memory; who is to wake goes first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log) -> None:
        self._loop = loop
        self._log = log
        self._waiting: deque[_Sleeper] = deque()
        self._running: set[_Sleeper] = set()
        self._young: set[_Sleeper] = set()
        """Those that began not long ago. One that takes longer has a target that stands still: none waits for that."""

    def start(self, pid: int, goal: Goal, done: Done) -> Running:
        """See ``Start``."""
        sleeper = _Sleeper(command(pid, goal), done)
        if goal is Goal.AWAKE:
            self._waiting.appendleft(sleeper)
        else:
            self._waiting.append(sleeper)
        self._loop.call_soon(self._begin)
        return sleeper

    def stop(self) -> None:
        """Ends all of them. Whoever is between two states then is looked at by the next scheduler."""
        self._waiting.clear()
        for sleeper in self._running:
            self._loop.remove_reader(sleeper.fd)
            sleeper.give_up()

    def _begin(self) -> None:
        while self._waiting and len(self._young) < _AT_ONCE:
            sleeper = self._waiting.popleft()
            if sleeper.given_up:
                continue
            try:
                sleeper.begin()
            except OSError as error:
                self._log.error("a sleeper can't be started", reason=str(error))
                sleeper.done(None)
                continue
            self._running.add(sleeper)
            self._young.add(sleeper)
            self._loop.add_reader(sleeper.fd, self._on_readable, sleeper)
            self._loop.call_later(_YOUNG_SECONDS, self._is_old, sleeper)

    def _is_old(self, sleeper: _Sleeper) -> None:
        self._young.discard(sleeper)
        self._begin()

    def _on_readable(self, sleeper: _Sleeper) -> None:
        if sleeper.read():
            return
        self._loop.remove_reader(sleeper.fd)
        self._running.discard(sleeper)
        self._is_old(sleeper)
        self._bury(sleeper)
        if sleeper.given_up:
            return
        outcome = _outcome(sleeper.said)
        if outcome is None:
            self._log.warning("a sleeper died", said=sleeper.said.decode(errors="replace")[-_READ_BYTES:])
        sleeper.done(outcome)

    def _bury(self, sleeper: _Sleeper) -> None:
        """It has closed its output, so it is ending. The driver may make that take a while."""
        if not sleeper.has_ended():
            self._loop.call_later(_BURY_SECONDS, self._bury, sleeper)


class _Sleeper:
    """See ``Running``."""

    def __init__(self, command_line: list[str], done: Done) -> None:
        self._command_line = command_line
        self._process: subprocess.Popen[bytes] | None = None
        self.done = done
        self.fd = -1
        """Its output."""
        self.said = b""
        self.given_up = False

    def begin(self) -> None:
        """Starts it; OSError where that is not possible now."""
        self._process = subprocess.Popen(
            self._command_line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # What a terminal sends to the scheduler is not for them.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()

    def read(self) -> bool:
        """Whether there is more to come."""
        data = os.read(self.fd, _READ_BYTES)
        self.said += data
        return bool(data)

    def give_up(self) -> None:
        """See ``Running``. Its end is heard as that of any other."""
        self.given_up = True
        if self._process is not None:
            self._process.kill()

    def has_ended(self) -> bool:
        """Whether nothing of it is left; only after all was read."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.poll() is not None


def _outcome(said: bytes) -> Outcome | None:
    """By one of the lines: before and after it the loader, Python or the driver may say what they miss."""
    for line in reversed(said.decode(errors="replace").splitlines()):
        with suppress(ValueError):
            end, step, result, seconds, *reason = line.split(maxsplit=4)
            return Outcome(End(end), step, int(result), float(seconds), "".join(reason).strip())
    return None

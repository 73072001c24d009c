"""One process on its way to sleep or back: what its library says, what a sleeper finds, and what the core hears of it.

Whatever happens, it ends asleep or awake: a sleeper that dies is followed by another one. Frames that close and open
its door go over one connection as long as that lives, so they are heard in this order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from nvshare.log import Log
from nvshare.protocol import wire
from nvshare.scheduler.core.sleep_events import FellAsleep, StayedAwake, WakeWanted, Woke
from nvshare.scheduler.pods.processes import lives
from nvshare.scheduler.sleeping.reasons import why
from nvshare.scheduler.sleeping.sleeper import SUCCESS, End, Goal
from nvshare.scheduler.sleeping.sleepers import Outcome, Running, Start

_CLOSE_SECONDS = 10.0
"""For a library's answer: its driver lets go of 1 GiB of host memory in 22 ms."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 30.0
"""Before the next sleeper, where one did not do; each is twice the one before."""

Say = Callable[[wire.Sleep | wire.Awake], None]
"""Sends a frame to a client."""


class UnaskedError(Exception):
    """A client answers what nobody asked; the message says what."""


@dataclass(slots=True)
class SleepTimes:
    """What sleeping and waking took, of all processes."""

    sleeps: int = 0
    sleep_seconds: float = 0.0
    """From the lock to the end of the checkpoint."""
    wakes: int = 0
    wake_seconds: float = 0.0
    """From the restore to the end of the unlock."""
    lost: int = 0
    """Processes that the driver did not get back, or whose data could not be read from a file."""


@dataclass(slots=True)
class Means:
    """What all processes have in common."""

    loop: asyncio.AbstractEventLoop
    log: Log
    start: Start
    feed: Callable[[FellAsleep | StayedAwake | WakeWanted | Woke], None]
    """Tells the core."""
    forget: Callable[[Process], None]
    """Is told of a process of which nothing is left."""
    times: SleepTimes = field(default_factory=SleepTimes)
    unable: str = ""
    """Why no process can sleep here; empty: as far as is known they can."""


class _Stage(Enum):
    AWAKE = auto()
    """Its door is open, or it was told to open it."""
    CLOSING = auto()
    """It was told to close it."""
    MOVING = auto()
    """A sleeper is at work, or the next one begins soon."""
    ASLEEP = auto()


class _Owed(Enum):
    """Which answer the core awaits."""

    NOTHING = auto()
    TO_SLEEP = auto()
    TO_WAKE = auto()


class Process:
    """A process that has clients, or at which a sleeper is still at work."""

    def __init__(self, pid: int, started: int, means: Means) -> None:
        self.pid = pid
        self.started = started
        """As ``pods.processes.start_time`` says."""
        self._means = means
        self._says: dict[int, Say] = {}
        """Its clients. The first one is told all, as long as it is there."""
        self._stage = _Stage.AWAKE
        self._owed = _Owed.NOTHING
        self._request = 0
        """The last one."""
        self._wants = False
        """It wants to wake, and the core knows, or will when it knows that the process is asleep."""
        self._lost = False
        self._goal = Goal.SETTLED
        self._sleeper: Running | None = None
        self._handle: asyncio.Handle | None = None
        """What happens if nothing else does."""
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def join(self, number: int, say: Say) -> None:
        """One more client."""
        self._says[number] = say

    def leave(self, number: int) -> None:
        """The connection of a client ended, and the core knows."""
        was_told = number == next(iter(self._says))
        del self._says[number]
        if not self._says:
            self._end()
        elif was_told and self._stage in (_Stage.AWAKE, _Stage.CLOSING):
            # It may not have heard it, or not have been heard.
            self._move(Goal.SETTLED)

    def stop(self) -> None:
        """Does nothing more by itself."""
        self._cancel()

    def sleep(self) -> None:
        """The core wants it to sleep."""
        self._owed = _Owed.TO_SLEEP
        if self._lost or self._means.unable:
            reason = self._means.unable or "it is lost"
            self._means.loop.call_soon(self._answer, reason, True)
        elif self._stage is _Stage.AWAKE:
            self._stage, self._goal = _Stage.CLOSING, Goal.ASLEEP
            self._request += 1
            self._say(wire.Sleep(self._request))
            self._handle = self._means.loop.call_later(_CLOSE_SECONDS, self._on_silence)

    def wake(self) -> None:
        """The core wants it awake, which knows that it is asleep."""
        self._owed = _Owed.TO_WAKE
        self._move(Goal.AWAKE)

    def has_closed(self, request: int) -> None:
        """ASLEEP: its door is closed; UnaskedError for a request that never was."""
        self._check(request)
        if self._stage is _Stage.CLOSING and request == self._request:
            self._move(Goal.ASLEEP)
        elif self._stage is _Stage.AWAKE or (self._stage is _Stage.CLOSING and not request):
            # It answers too late, has not heard what it was told, or was asleep before.
            self._move(Goal.SETTLED)

    def has_not_closed(self, request: int, reason: str, final: bool) -> None:
        """NOT_ASLEEP: its door is open; UnaskedError for a request that never was."""
        self._check(request)
        if self._stage is _Stage.CLOSING and request == self._request:
            self._cancel()
            self._stage = _Stage.AWAKE
            self._answer(reason, final)

    def wants_to_wake(self) -> None:
        """WAKE: a call waits at its door, or did so when that was said."""
        if self._stage is _Stage.AWAKE or self._wants:
            return
        self._wants = True
        if self._stage is _Stage.ASLEEP:
            self._means.feed(WakeWanted(self.pid))

    def lose_data(self) -> None:
        """What it had in host memory can't be read: as soon as it is awake each of its calls fails."""
        self._means.log.error("the data of a process is lost: its calls fail from now on", pid=self.pid)
        self._means.times.lost += not self._lost
        self._lost = True

    def _check(self, request: int) -> None:
        if request > self._request:
            raise UnaskedError(f"nobody asked it to sleep as request {request}")

    def _say(self, frame: wire.Sleep | wire.Awake) -> None:
        if self._says:
            next(iter(self._says.values()))(frame)

    def _answer(self, reason: str, final: bool) -> None:
        """Tells the core what it waits for, of a process that is awake."""
        owed, self._owed = self._owed, _Owed.NOTHING
        if owed is _Owed.TO_SLEEP:
            self._means.log.info("a process stays awake", pid=self.pid, reason=reason, final=final)
            self._means.feed(StayedAwake(self.pid, reason, final))
        elif owed is _Owed.TO_WAKE:
            self._means.feed(Woke(self.pid))

    def _on_silence(self) -> None:
        self._stage = _Stage.AWAKE
        self._answer(f"it does not answer within {_CLOSE_SECONDS:g} s", False)

    def _open(self, reason: str = "", final: bool = False) -> None:
        """It is told to open its door, and the core that it has; ``reason`` is why it does not sleep."""
        self._cancel()
        self._stage, self._wants = _Stage.AWAKE, False
        self._say(wire.Awake(lost=self._lost))
        self._answer(reason, final)

    def _move(self, goal: Goal) -> None:
        self._cancel()
        self._stage, self._goal = _Stage.MOVING, goal
        if not lives(self.pid, self.started):
            # Whoever has its pid next is another one. That its connections end is heard next.
            self._go_on()
            return
        self._sleeper = self._means.start(self.pid, goal, self._on_outcome)

    def _go_on(self) -> None:
        """The next sleeper finds what the one before it did."""
        goal = Goal.AWAKE if self._goal is Goal.AWAKE else Goal.SETTLED
        pause, self._pause_seconds = self._pause_seconds, min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        self._handle = self._means.loop.call_later(pause, self._move, goal)

    def _on_outcome(self, outcome: Outcome | None) -> None:
        self._sleeper = None
        if not self._says:
            self._end()
        elif outcome is None or not lives(self.pid, self.started):
            self._go_on()
        elif outcome.end in (End.UNKNOWN, End.UNABLE):
            self._on_failure(outcome)
        else:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            self._on_end(outcome)

    def _on_failure(self, outcome: Outcome) -> None:
        """Nothing was seen of the process."""
        if outcome.end is End.UNABLE:
            reason, final = f"the scheduler has no driver that can checkpoint it: {outcome.reason}", True
            if not self._means.unable:
                self._means.log.warning("no process can sleep here", reason=outcome.reason)
            self._means.unable = reason
        else:
            reason, final = why(outcome.step, outcome.result)
        if self._goal is Goal.ASLEEP and outcome.step in ("state", "begin"):
            self._open(reason, final)
        else:
            self._means.log.error("it is not known whether a process is asleep", pid=self.pid, reason=reason)
            self._go_on()

    def _on_end(self, outcome: Outcome) -> None:
        times, log = self._means.times, self._means.log.bind(pid=self.pid, seconds=round(outcome.seconds, 3))
        reason, final = why(outcome.step, outcome.result) if outcome.result != SUCCESS else ("", False)
        if outcome.end is End.ASLEEP:
            if self._owed is _Owed.TO_SLEEP:
                times.sleeps += 1
                times.sleep_seconds += outcome.seconds
            log.info("a process is asleep")
            self._stage, self._owed = _Stage.ASLEEP, _Owed.NOTHING
            self._means.feed(FellAsleep(self.pid))
            if self._wants:
                self._means.feed(WakeWanted(self.pid))
        elif outcome.end is End.LOST:
            times.lost += 1
            log.error("the driver has lost a process: its calls fail from now on", reason=reason)
            self._lost = True
            self._open(reason, final=True)
        else:
            if self._goal is Goal.AWAKE:
                times.wakes += 1
                times.wake_seconds += outcome.seconds
                log.info("a process woke")
            self._open(reason or "something came between", final)

    def _end(self) -> None:
        """Nobody is there who could be told anything, or would want to."""
        self._cancel()
        self._owed = _Owed.NOTHING
        if self._sleeper is not None and lives(self.pid, self.started):
            return
        if self._sleeper is not None:
            self._sleeper.give_up()
        self._means.forget(self)

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

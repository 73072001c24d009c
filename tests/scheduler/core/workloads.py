"""Programs with terms and bursts of work, and a core, in virtual time.

A program works for so long, pauses for so long, and begins again; one without pauses always has work. Its library asks
when there is work and no lock, drains when it is asked to leave, and gives way by itself when it was told of waiters
and has been idle for as long as it was told. Messages take no time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from nvshare.scheduler.core.actions import Action, Grant, Revoke, TellWaiters
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    Event,
    LockReleased,
    LockRequested,
    Policy,
    TermsSet,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.terms import Terms

DEVICE = "GPU-a"
GIB = 1 << 30
DEVICE_BYTES = 16 * GIB
DRAIN = 0.005
FOREVER = 1e9


@dataclass(slots=True, eq=False)
class Program:
    """One client and what it does."""

    container: str
    work_seconds: float = FOREVER
    pause_seconds: float = 0.0
    footprint_bytes: int = 12 * GIB
    drain_seconds: float = DRAIN
    starts: float = 0.0
    number: int = 0
    grant: int = 0
    holds: bool = False
    waits: bool = False
    leaving: bool = False
    told: bool = False
    idle_seconds: float = 0.0
    began: float | None = None
    """When the present piece of work began; None: it pauses."""
    left: float = 0.0
    """Of the present piece of work."""
    runs_since: float | None = None
    held_since: float = 0.0
    step: int = 0
    """Counts up whenever what is planned for it is void."""
    latencies: list[float] = field(default_factory=list)
    """Of each piece of work."""
    turns: list[tuple[float, float]] = field(default_factory=list)
    """From when to when it held."""
    worked_seconds: float = 0.0
    waited: list[float] = field(default_factory=list)
    waits_since: float = 0.0


class Workload:
    """One device, its core and its programs."""

    def __init__(
        self, programs: list[Program], terms: dict[str, Terms], settings: Settings, policy: Policy | None = None
    ) -> None:
        self.core = Core(settings)
        self.now = 0.0
        self.revokes = 0
        self.programs = dict(enumerate(programs, start=1))
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._say(DeviceSeen(DEVICE, DEVICE_BYTES))
        for number, program in self.programs.items():
            program.number = number
            self._say(ClientRegistered(number, DEVICE, program.footprint_bytes, ClaimedState.IDLE))
            self._say(ContainerFound(number, program.container, terms.get(program.container, Terms())))
            self._after(program.starts, lambda program=program: self._begin(program))  # type: ignore[misc]

    def run(self, end: float) -> None:
        """Lets everything happen that happens before ``end``."""
        while True:
            deadline = self.core.deadline()
            at = self._due[0][0] if self._due else end
            if min(at, end if deadline is None else deadline) >= end:
                break
            if deadline is not None and deadline <= at:
                self.now = max(self.now, deadline)
                self._obey(self.core.handle_timer(self.now))
                after = self.core.deadline()
                assert after is None or after > self.now, "the timer that was due has nothing to do"
            else:
                self.now, _, act = heapq.heappop(self._due)
                act()
        self.now = end

    def set_terms(self, container: str, terms: Terms) -> None:
        """The terms of a container change now."""
        self._say(TermsSet(container, terms))

    def held(self, container: str, start: float = 0.0, end: float | None = None) -> float:
        """How long clients of a container held within a time, one or several at once."""
        end = self.now if end is None else end
        turns = [turn for each in self.programs.values() if each.container == container for turn in self._turns(each)]
        total, reached = 0.0, start
        for began, ended in sorted(turns):
            total += max(0.0, min(ended, end) - max(began, reached))
            reached = max(reached, min(ended, end))
        return total

    def _turns(self, program: Program) -> list[tuple[float, float]]:
        return [*program.turns, (program.held_since, self.now)] if program.holds else program.turns

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), act))

    def _plan(self, program: Program, seconds: float, act: Callable[[Program], None]) -> None:
        """What a program does if nothing else happens to it."""
        program.step += 1
        step = program.step

        def due() -> None:
            if program.step == step:
                act(program)

        self._after(seconds, due)

    def _say(self, event: Event) -> None:
        self._obey(self.core.handle(event, self.now))

    def _obey(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Grant):
                self._granted(self.programs[action.client], action.grant)
            elif isinstance(action, Revoke):
                self.revokes += 1
                self._revoked(self.programs[action.client], action.grant)
            elif isinstance(action, TellWaiters):
                program = self.programs[action.client]
                program.told, program.idle_seconds = action.waiters > 0, action.idle_seconds
                if program.holds and program.began is None and program.told and not program.leaving:
                    self._after(program.idle_seconds, lambda program=program: self._rest(program))  # type: ignore[misc]

    def _begin(self, program: Program) -> None:
        program.began, program.left = self.now, program.work_seconds
        if program.holds and not program.leaving:
            self._go_on(program)
        elif not program.holds:
            self._ask(program)

    def _ask(self, program: Program) -> None:
        program.waits, program.waits_since = True, self.now
        self._say(LockRequested(program.number))

    def _granted(self, program: Program, grant: int) -> None:
        assert program.waits, "a grant to somebody who does not wait"
        program.waits, program.holds, program.told = False, True, False
        program.grant, program.held_since = grant, self.now
        program.waited.append(self.now - program.waits_since)
        self._go_on(program)

    def _go_on(self, program: Program) -> None:
        program.runs_since = self.now
        self._plan(program, program.left, self._done)

    def _done(self, program: Program) -> None:
        assert program.began is not None
        self._stop(program)
        program.latencies.append(self.now - program.began)
        program.began = None
        if program.told:
            self._after(program.idle_seconds, lambda: self._rest(program))
        self._after(program.pause_seconds, lambda: self._begin(program))

    def _stop(self, program: Program) -> None:
        if program.runs_since is not None:
            ran = min(program.left, self.now - program.runs_since)
            program.left -= ran
            program.worked_seconds += ran
            program.runs_since = None

    def _rest(self, program: Program) -> None:
        if program.holds and program.began is None and program.told and not program.leaving:
            self._leave(program)

    def _revoked(self, program: Program, grant: int) -> None:
        assert program.holds, "a revoke of somebody who does not hold"
        assert grant == program.grant
        assert not program.leaving, "a grant was revoked twice"
        program.leaving = True
        drain = min(program.drain_seconds, program.left) if program.began is not None else 0.0
        self._plan(program, drain, self._leave)

    def _leave(self, program: Program) -> None:
        program.step += 1
        self._stop(program)
        program.holds = program.leaving = program.told = False
        program.turns.append((program.held_since, self.now))
        over = program.began is not None and program.left <= 1e-9
        if over and program.began is not None:
            program.latencies.append(self.now - program.began)
            program.began = None
            self._after(program.pause_seconds, lambda: self._begin(program))
        self._say(LockReleased(program.number, program.grant))
        if program.began is not None:
            self._ask(program)

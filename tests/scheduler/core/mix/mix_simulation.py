"""Programs that fit a GPU together, and a core with the policy ``auto``, in virtual time.

A program submits at a certain rate while it holds alone, and at a part of that beside others; ``rates`` says which. The
rate of each slice of time differs from that by some noise. What it has submitted runs later by its queue, which the
drain waits for, as all programs' queues do. Its library does what ours does: it reports when it is asked to, as its
gate opens and when it has drained; it gives way when it has been idle while others wait. Messages take their time.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from nvshare.scheduler.core.actions import Action, Grant, Revoke, TellWaiters, Watch
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    Event,
    LockReleased,
    LockRequested,
    Policy,
    ProgressOffered,
    ProgressReported,
)
from nvshare.scheduler.core.settings import Settings

DEVICE = "GPU-a"
GIB = 1 << 30
MESSAGE_SECONDS = 100e-6
NOISE_SECONDS = 0.5
"""How long the same noise lasts."""
LOOK_SECONDS = 0.1
"""Between two looks at what is decided."""

Rates = Callable[[tuple[str, ...]], tuple[float, ...]]
"""For the kinds of programs that run now: which part of its rate alone each of them has."""


@dataclass(slots=True, eq=False)
class Program:
    """One client and its library. Times are of the simulation."""

    number: int
    kind: str
    rate: float
    """Submissions per second, alone."""
    queue_seconds: float
    """How long what it has queued takes, alone."""
    pause: tuple[float, float] = (0.0, 0.0)
    """It works for so long, then it does nothing for so long; 0: it always works."""
    burst: tuple[float, float] = (0.0, 0.0)
    """It has so many seconds of work, alone, at a time, and rests so long when all is done; 0: it always works."""
    burst_left: float = 0.0
    """What is left to submit of the present one."""
    burst_began: float = 0.0
    burst_at: float = 0.0
    """When the next one begins."""
    working: bool = False
    """A burst is not done yet."""
    took: list[float] = field(default_factory=list)
    """How long each took."""
    gaps: float = 0.0
    """Which part of pacing's looks find nothing left to do."""
    started: float = 0.0
    done: float = 0.0
    """Completed."""
    queued: float = 0.0
    """Submitted, not completed."""
    submitted: float = 0.0
    grant: int = 0
    held: bool = False
    leaving: bool = False
    waits: bool = False
    """It has asked for the lock."""
    waited_for: float = 0.0
    """How long it is to be idle before it gives way; 0: nobody waits."""
    idle_since: float | None = None
    watched: float = 0.0
    told_together: bool = False
    report_at: float = float("inf")
    noise: float = 1.0
    stuck: bool = False
    """It does nothing any more, and keeps the lock."""
    turns: list[tuple[float, float]] = field(default_factory=list)
    """Of each turn, when it began and ended."""

    def works(self, now: float) -> bool:
        """Whether it has something to submit."""
        if self.burst[1]:
            return self.burst_left > 0
        busy, idle = self.pause
        return not idle or (now - self.started) % (busy + idle) < busy


class MixSimulation:
    """One device and its programs. Time goes on in small steps."""

    def __init__(
        self,
        rates: Rates,
        *,
        quantum_seconds: float = 30.0,
        noise: float = 0.04,
        seed: int = 1,
        policy: Policy = Policy.AUTO,
        step_seconds: float = 0.005,
        burst_seconds: float = 0.0,
    ) -> None:
        settings = Settings(
            policy=policy, quantum_seconds=quantum_seconds, assumed_pinned_bytes=0, burst_seconds=burst_seconds
        )
        self.core = Core(settings)
        self.now = 0.0
        self.programs: list[Program] = []
        self.changes: list[tuple[float, bool]] = []
        """When it was decided that they take turns, or not any more."""
        self._rates = rates
        self._noise = noise
        self._random = random.Random(seed)
        self._step = step_seconds
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._noise_until = self._look_at = 0.0
        self.core.handle(DeviceSeen(DEVICE, 64 * GIB), 0.0)

    def add(
        self, kind: str, rate: float = 1000.0, queue_seconds: float = 0.05, pause: tuple[float, float] = (0.0, 0.0)
    ) -> Program:
        """A program that starts now."""
        program = Program(len(self.programs) + 1, kind, rate, queue_seconds, pause, started=self.now)
        self.programs.append(program)
        self._feed(ClientRegistered(program.number, DEVICE, GIB, ClaimedState.IDLE, backend=Backend.NATIVE))
        self._feed(ProgressOffered(program.number))
        return program

    def add_bursts(self, kind: str, work_seconds: float, rest_seconds: float) -> Program:
        """A program that has something to do now and then starts now."""
        program = self.add(kind, queue_seconds=min(0.01, work_seconds / 10))
        program.burst = work_seconds, rest_seconds
        return program

    def end(self, program: Program) -> None:
        """A program is gone."""
        self.programs.remove(program)
        self._feed(ClientGone(program.number))

    def run(self, seconds: float) -> None:
        """Lets so much time pass."""
        end = self.now + seconds
        while self.now < end:
            self._events()
            self._work(self._step)
            self.now += self._step
            if self.now >= self._look_at:
                self._look_at = self.now + LOOK_SECONDS
                shown = self.core.snapshot(self.now)[0].mix
                if shown is not None and (not self.changes or self.changes[-1][1] is not shown.turns):
                    self.changes.append((self.now, shown.turns))

    def normalized(self) -> float:
        """What all have done, by what one alone would have in the same time."""
        return sum(program.done / program.rate for program in self.programs)

    @property
    def in_turns(self) -> bool:
        """Whether it is decided that they take turns."""
        shown = self.core.snapshot(self.now)[0].mix
        return shown is not None and shown.turns

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), act))

    def _feed(self, event: Event) -> None:
        self._obey(self.core.handle(event, self.now))

    def _say(self, event: Event) -> None:
        self._after(MESSAGE_SECONDS, lambda: self._feed(event))

    def _obey(self, actions: list[Action]) -> None:
        for action in actions:
            self._after(MESSAGE_SECONDS, lambda action=action: self._receive(action))  # type: ignore[misc]

    def _events(self) -> None:
        """All that is due by now, the core's timer included."""
        now = self.now
        while True:
            deadline = self.core.deadline()
            next_at = self._due[0][0] if self._due else float("inf")
            if deadline is not None and deadline <= min(now, next_at):
                self.now = max(deadline, 0.0)
                self._obey(self.core.handle_timer(self.now))
                after = self.core.deadline()
                assert after is None or after > self.now, "the timer that was due has nothing to do"
            elif next_at <= now:
                self.now, _, act = heapq.heappop(self._due)
                act()
            else:
                break
        self.now = now

    def _receive(self, action: Action) -> None:
        program = next((each for each in self.programs if each.number == getattr(action, "client", 0)), None)
        if program is None:
            return
        match action:
            case Grant(_, grant):
                program.grant, program.held, program.waits, program.waited_for = grant, True, False, 0.0
                program.turns.append((self.now, self.now))
                program.idle_since = None
                self._report(program)
            case Revoke(_, grant) if program.held and grant == program.grant:
                program.leaving = True
            case TellWaiters(_, _, idle_seconds):
                program.waited_for = idle_seconds
            case Watch(_, interval_seconds, together):
                program.watched, program.told_together = interval_seconds, together
                program.report_at = self.now + interval_seconds if interval_seconds else float("inf")
                if program.held:
                    self._report(program)
            case _:
                pass

    def _report(self, program: Program) -> None:
        if program.watched:
            looks = int(program.submitted / 64)
            empty_looks = int(looks * program.gaps)
            self._say(ProgressReported(program.number, int(program.submitted), self.now, looks, empty_looks))
            program.report_at = self.now + program.watched

    def _work(self, seconds: float) -> None:
        if self.now >= self._noise_until:
            self._noise_until = self.now + NOISE_SECONDS
            for program in self.programs:
                program.noise = max(0.5, self._random.gauss(1.0, self._noise))
        for program in self.programs:
            self._go_on(program)
        running = [program for program in self.programs if program.held and self._has_work(program)]
        parts = self._rates(tuple(program.kind for program in running)) if running else ()
        for program, part in zip(running, parts, strict=True):
            self._complete(program, part, seconds)
        for program in self.programs:
            self._follow(program, program in running)

    def _go_on(self, program: Program) -> None:
        """A burst may be over, or begin."""
        work_seconds, rest_seconds = program.burst
        if not rest_seconds or program.burst_left or program.queued:
            return
        if program.working:
            program.working, program.burst_at = False, self.now + rest_seconds
            program.took.append(self.now - program.burst_began)
        if self.now >= program.burst_at:
            program.working, program.burst_began = True, self.now
            program.burst_left = work_seconds * program.rate

    def _has_work(self, program: Program) -> bool:
        if program.stuck:
            return False
        return program.queued > 0 or (program.works(self.now) and not program.leaving)

    def _complete(self, program: Program, part: float, seconds: float) -> None:
        room = 0.0
        if program.works(self.now) and not program.leaving:
            room = program.rate * program.queue_seconds + program.rate * seconds - program.queued
        more = max(0.0, room)
        if program.burst[1]:
            more = min(more, program.burst_left)
            program.burst_left -= more
        program.submitted += more
        program.queued += more
        completed = min(program.queued, program.rate * part * program.noise * seconds)
        program.queued -= completed
        program.done += completed
        if program.queued < 1e-6:
            program.queued = 0.0

    def _follow(self, program: Program, ran: bool) -> None:
        """What the library does without being told."""
        works = program.works(self.now)
        if program.stuck:
            return
        if program.held:
            program.turns[-1] = program.turns[-1][0], self.now
            if self.now >= program.report_at:
                self._report(program)
            program.idle_since = None if ran else (program.idle_since or self.now)
            idle = program.idle_since is not None and program.waited_for > 0
            if idle and self.now - (program.idle_since or 0.0) >= program.waited_for:
                program.leaving = True
            if program.leaving and not program.queued:
                self._report(program)
                program.held = program.leaving = False
                program.report_at = float("inf")
                self._say(LockReleased(program.number, program.grant))
        elif works and not program.waits:
            program.waits = True
            self._say(LockRequested(program.number))

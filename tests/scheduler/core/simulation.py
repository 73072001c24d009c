"""Programs that swap, a link and a core in virtual time.

A program wants the GPU for so many seconds, and asks for it again when it lost it. Its library does what ours does:
it goes by an order at once, or, while it holds, when its drain is over; it moves one chunk a direction at a time and
tells each; it asks for memory before it takes it. The link is duplex, each direction serves one chunk after another.
Every message takes the same time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from nvshare.scheduler.core.actions import Action, Allot, Evict, Grant, GrowArena, Measure, RefuseGrowth, Revoke
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ArenaGrown,
    Backend,
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    Event,
    GrowthRequested,
    LockReleased,
    LockRequested,
    Policy,
    ResidencyReported,
)
from nvshare.scheduler.core.settings import Settings

DEVICE = "GPU-a"
MIB = 1 << 20
GIB = 1 << 30
CHUNK = 64 * MIB
PINNED = 640 * MIB


@dataclass(frozen=True, slots=True)
class Machine:
    """What the simulation runs on."""

    total_bytes: int = 16 * GIB
    bytes_per_second: float = 50e9
    """Of the link, in each direction."""
    message_seconds: float = 100e-6
    drain_seconds: float = 0.005
    """From DROP_LOCK to LOCK_RELEASED."""
    host_bytes: int = 1 << 50
    reserve_bytes: int = 512 * MIB


@dataclass(slots=True, eq=False)
class Program:
    """One client and its library."""

    number: int
    footprint_bytes: int
    """What it will allocate at its start."""
    work_seconds: float
    """GPU time that it still needs."""
    footprint: int = 0
    resident: int = 0
    going_out: int = 0
    """The chunk that is on its way out; part of what is resident."""
    coming_in: int = 0
    admitted: int = 0
    allotted: int = 0
    order: int = 0
    newest: tuple[int, int] = (0, 0)
    """The newest order and its allotment; counts when the lock is given back."""
    arena: int = 0
    request: int = 0
    grant: int = 0
    held: bool = False
    leaving: bool = False
    runs_since: float | None = None
    refused: str = ""
    started: float = 0.0
    ended: float | None = None
    moved_out: int = 0
    turns: int = 0


class Simulation:
    """One device, its core and its programs."""

    def __init__(self, machine: Machine, policy: Policy, quantum_seconds: float) -> None:
        self.machine = machine
        settings = Settings(
            policy=policy,
            quantum_seconds=quantum_seconds,
            assumed_pinned_bytes=PINNED,
            reserve_bytes=machine.reserve_bytes,
            host_bytes=machine.host_bytes,
        )
        self.core = Core(settings)
        self.now = 0.0
        self.programs: dict[int, Program] = {}
        self.busy_seconds = 0.0
        self.actions: list[tuple[float, Action]] = []
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._free_at = {"in": 0.0, "out": 0.0}
        self.core.handle(DeviceSeen(DEVICE, machine.total_bytes), 0.0)

    def add(self, footprint_bytes: int, work_seconds: float) -> Program:
        """A program that starts now: it makes a context, allocates, and then wants to compute."""
        program = Program(len(self.programs) + 1, footprint_bytes, work_seconds, started=self.now)
        self.programs[program.number] = program
        self._say(
            ClientRegistered(
                program.number,
                DEVICE,
                0,
                ClaimedState.IDLE,
                backend=Backend.SWAP,
                device_bytes=self.machine.total_bytes,
            )
        )
        self._report(program)
        self._grow(program, 0)
        return program

    def run(self, until: Callable[[], bool], limit_seconds: float = 1e5) -> None:
        """Lets time pass until something is so; AssertionError when it never is."""
        while not until():
            deadline = self.core.deadline()
            if deadline is not None and (not self._due or deadline <= self._due[0][0]):
                self.now = max(self.now, deadline)
                self._obey(self.core.handle_timer(self.now))
                after = self.core.deadline()
                assert after is None or after > self.now, "the timer that was due has nothing to do"
                continue
            assert self._due, f"nothing will ever happen any more at {self.now}"
            self.now, _, act = heapq.heappop(self._due)
            assert self.now < limit_seconds, "it takes too long"
            act()

    def run_all(self) -> float:
        """Runs all programs to their end; returns when that is."""
        self.run(lambda: all(program.ended is not None for program in self.programs.values()))
        return self.now

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), act))

    def _say(self, event: Event) -> None:
        self._after(self.machine.message_seconds, lambda: self._obey(self.core.handle(event, self.now)))

    def _obey(self, actions: list[Action]) -> None:
        for action in actions:
            self.actions.append((self.now, action))
            self._after(self.machine.message_seconds, lambda action=action: self._receive(action))  # type: ignore[misc]

    def _receive(self, action: Action) -> None:
        if isinstance(action, Measure):
            self._say(DeviceSeen(action.device, self.machine.total_bytes))
            return
        program = self.programs[action.client]
        match action:
            case Grant(_, grant):
                program.grant, program.held = grant, True
                program.turns += 1
                self._go_on(program)
            case Revoke(_, grant) if program.held and grant == program.grant:
                if not program.leaving:
                    self._leave(program, self.machine.drain_seconds)
            case Allot():
                program.newest = action.order, action.allotted_bytes
                program.admitted = action.admitted_bytes
                self._settle(program)
                if action.request and action.request == program.request:
                    self._grown(program)
                self._go_on(program)
            case Evict():
                program.newest = action.order, action.allotted_bytes
                self._settle(program)
                self._go_on(program)
            case RefuseGrowth():
                program.refused, program.ended = action.reason, self.now
            case GrowArena():
                program.arena += action.segment_bytes
                self._say(ArenaGrown(program.number, action.segment_bytes))
                self._report(program)
            case _:
                pass

    def _grow(self, program: Program, footprint_bytes: int) -> None:
        program.request += 1
        self._say(GrowthRequested(program.number, program.request, footprint_bytes, 0))

    def _grown(self, program: Program) -> None:
        if program.request == 1:
            self._grow(program, program.footprint_bytes)
            return
        program.footprint = program.footprint_bytes
        program.resident = min(program.footprint, program.allotted)
        self._report(program)
        self._say(LockRequested(program.number))

    def _settle(self, program: Program) -> None:
        order, allotted = program.newest
        if order != program.order and not (program.held and program.resident > allotted):
            program.order, program.allotted = order, allotted
            self._report(program)

    def _report(self, program: Program) -> None:
        self._say(
            ResidencyReported(
                program.number,
                program.order,
                program.footprint,
                program.resident,
                admitted_bytes=program.admitted,
                arena_bytes=program.arena,
                usable_bytes=program.arena,
                out_bytes=program.footprint - program.resident,
            )
        )

    def _go_on(self, program: Program) -> None:
        """Moves the next chunk, or runs."""
        staying = program.resident - program.going_out
        if not program.held and staying > program.allotted and not program.going_out:
            program.going_out = min(CHUNK, staying)
            self._move("out", program.going_out, lambda: self._went_out(program))
        lacking = program.footprint - program.resident
        room = min(lacking, program.allotted - program.resident)
        if room > 0 and not program.going_out and not program.coming_in:
            program.coming_in = min(CHUNK, room)
            program.resident += program.coming_in
            self._move("in", program.coming_in, lambda: self._came_in(program))
        is_in = program.resident == program.footprint and not program.coming_in and not program.going_out
        if program.held and is_in and program.runs_since is None and not program.leaving:
            program.runs_since = self.now
            grant = program.grant
            self._after(program.work_seconds, lambda: self._done(program, grant))

    def _move(self, way: str, moved_bytes: int, act: Callable[[], None]) -> None:
        begin = max(self.now, self._free_at[way])
        self._free_at[way] = end = begin + moved_bytes / self.machine.bytes_per_second
        self._after(end - self.now, act)

    def _went_out(self, program: Program) -> None:
        program.resident -= program.going_out
        program.moved_out += program.going_out
        program.going_out = 0
        self._report(program)
        self._go_on(program)

    def _came_in(self, program: Program) -> None:
        program.coming_in = 0
        self._report(program)
        self._go_on(program)

    def _done(self, program: Program, grant: int) -> None:
        if program.held and program.grant == grant and not program.leaving:
            self._leave(program, 0.0)

    def _leave(self, program: Program, drain_seconds: float) -> None:
        program.leaving = True
        if program.runs_since is not None:
            ran = self.now - program.runs_since + drain_seconds
            self.busy_seconds += min(ran, program.work_seconds)
            program.work_seconds = max(0.0, program.work_seconds - ran)
            program.runs_since = None
        self._after(drain_seconds, lambda: self._left(program))

    def _left(self, program: Program) -> None:
        program.held = program.leaving = False
        self._say(LockReleased(program.number, program.grant))
        self._settle(program)
        if program.work_seconds > 1e-9:
            self._say(LockRequested(program.number))
        elif program.ended is None:
            program.ended = self.now
        self._go_on(program)

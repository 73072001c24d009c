"""A container's memory limit between the core and the library's own state of its room, with messages that take time."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from nvshare.scheduler.core.actions import Action, Allot, Evict, Grant, RefuseGrowth
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    Event,
    GrowthRequested,
    LockReleased,
    LockRequested,
    ResidencyReported,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.terms import Terms
from tests.shim.room_state_model import BRING_IN, BRING_OUT, CONTEXT, FIXED, MOVABLE, UP, WAIT, Room, lib

pytestmark = pytest.mark.soak

MIB = 1 << 20
TOTAL, LIMIT = 512 * MIB, 200 * MIB
SIZES = tuple(size * MIB for size in (2, 4, 16, 32, 64))
PROCESSES, THREADS, STEPS = 3, 2, 1500


@dataclass(slots=True)
class Waiter:
    """A thread that waits for room; 0: for a context."""

    thread: int
    kind: int
    size: int


@dataclass(slots=True, eq=False)
class Process:
    """One process of the container, with its threads and its connection."""

    number: int
    room: Room = field(default_factory=Room)
    inbox: deque[Action] = field(default_factory=deque)
    outbox: deque[Event] = field(default_factory=deque)
    waiting: deque[Waiter] = field(default_factory=deque)
    had: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(THREADS)])
    """What each thread allocated: the kind, the size."""
    grant: int = 0
    asks: bool = False

    @property
    def used_bytes(self) -> int:
        """What it allocated."""
        return int(self.room.state.footprint_bytes + self.room.state.fixed_bytes)

    def serve(self) -> None:
        """Whoever waits goes on when it may, in the order in which they came, as room_lock.c sees to."""
        while self.waiting:
            first = self.waiting[0]
            if self.room.take(first.kind, first.size) == WAIT:
                lib.nvs_room_state_want(self.room.state, first.kind, first.size)
                return
            self.waiting.popleft()
            if first.kind != CONTEXT:
                self.had[first.thread].append((first.kind, first.size))
        lib.nvs_room_state_want_none(self.room.state)

    def allocate(self, thread: int, kind: int, size: int) -> None:
        """A thread wants so much."""
        self.waiting.append(Waiter(thread, kind, size))
        if len(self.waiting) == 1:
            self.serve()

    def free(self, thread: int, place: int) -> None:
        """A thread frees one of its allocations, what is out first."""
        kind, size = self.had[thread].pop(place)
        state = self.room.state
        if kind == FIXED:
            lib.nvs_room_state_count_fixed(state, -size)
        else:
            lib.nvs_room_state_give(state, size, max(0, size - (state.footprint_bytes - state.resident_bytes)))
        self.serve()

    def move(self) -> None:
        """The mover does what there is to do."""
        move, size = self.room.next()
        state = self.room.state
        if move == BRING_OUT and lib.nvs_room_state_leave(state, size):
            lib.nvs_room_state_left(state, size, True)
        elif move == BRING_IN and lib.nvs_room_state_enter(state, size):
            lib.nvs_room_state_entered(state, size, True)
        self.serve()

    def say(self, now_us: int, everything: bool = False) -> None:
        """What is to be said is on its way."""
        self.room.now = now_us
        self.outbox.extend(self._event(frame) for frame in self.room.says(everything))

    def _event(self, frame: Any) -> Event:
        memory, footprint = frame.memory, frame.footprint_bytes
        if frame.type == lib.NVS_GROW:
            return GrowthRequested(self.number, frame.request, footprint, memory.fixed_bytes)
        return ResidencyReported(
            self.number,
            memory.order,
            footprint,
            memory.resident_bytes,
            fixed_bytes=memory.fixed_bytes,
            admitted_bytes=memory.admitted_bytes,
            arena_bytes=memory.arena_bytes,
            usable_bytes=memory.usable_bytes,
            out_bytes=footprint - memory.resident_bytes,
        )

    def hear(self) -> None:
        """It reads one message."""
        match self.inbox.popleft():
            case Allot() as told:
                assert self.room.allot(told.order, told.allotted_bytes, told.admitted_bytes, told.request)
            case Evict() as told:
                assert self.room.evict(told.order, told.allotted_bytes)
            case RefuseGrowth() as told if lib.nvs_room_state_refuse(self.room.state, told.request):
                self.waiting.popleft()
            case Grant() as told:
                lib.nvs_room_state_hold(self.room.state)
                self.grant = told.grant
        self.serve()

    def ask_or_release(self, now_us: int) -> None:
        """It wants the lock, or gives it back."""
        if self.grant:
            lib.nvs_room_state_release(self.room.state)
            self.serve()
            self.say(now_us, everything=True)
            self.outbox.append(LockReleased(self.number, self.grant))
            self.grant, self.asks = 0, False
        elif not self.asks:
            self.say(now_us, everything=True)
            self.outbox.append(LockRequested(self.number))
            self.asks = True


class Container:
    """Some processes and the core, each of which goes on when chance will have it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_us = 1_000_000
        self.core = Core(
            Settings(assumed_pinned_bytes=20 * MIB, reserve_bytes=16 * MIB, host_bytes=2 << 30, quantum_seconds=5.0)
        )
        self.processes: list[Process] = []
        self.handle(DeviceSeen("GPU-a", TOTAL))
        for number in range(1, PROCESSES + 1):
            process = Process(number)
            self.processes.append(process)
            come = ClientRegistered(number, "GPU-a", 0, ClaimedState.IDLE, backend=Backend.SWAP, device_bytes=TOTAL)
            self.handle(come)
            self.handle(ContainerFound(number, "limited", Terms(memory_limit_bytes=LIMIT)))
            process.room.link(UP)
            process.allocate(0, CONTEXT, 0)
        self.settle()

    def handle(self, event: Event) -> None:
        """The core hears one message."""
        self.send(self.core.handle(event, self.now_us / 1e6))

    def send(self, actions: list[Action]) -> None:
        """What the core says is on its way."""
        for action in actions:
            if isinstance(action, Allot | Evict | RefuseGrowth | Grant):
                self.processes[action.client - 1].inbox.append(action)

    def wait(self, duration_us: int) -> None:
        """Time goes by."""
        self.now_us += duration_us
        deadline = self.core.deadline()
        if deadline is not None and deadline <= self.now_us / 1e6:
            self.send(self.core.handle_timer(self.now_us / 1e6))

    def work(self, process: Process) -> None:
        """A thread that does not wait allocates or frees."""
        thread = self.chance.randrange(THREADS)
        if any(waiter.thread == thread for waiter in process.waiting):
            return
        if process.had[thread] and self.chance.random() < 0.45:
            process.free(thread, self.chance.randrange(len(process.had[thread])))
        else:
            kind = MOVABLE if self.chance.random() < 0.7 else FIXED
            process.allocate(thread, kind, self.chance.choice(SIZES))

    def step(self, holds: bool) -> None:
        """One of all things that can happen."""
        process = self.chance.choice(self.processes)
        kind = self.chance.random()
        if kind < 0.3:
            self.work(process)
        elif kind < 0.5:
            process.say(self.now_us)
        elif kind < 0.65:
            if process.inbox:
                process.hear()
        elif kind < 0.8:
            if process.outbox:
                self.handle(process.outbox.popleft())
        elif kind < 0.85:
            process.move()
        elif holds and kind < 0.88:
            process.ask_or_release(self.now_us)
        else:
            self.wait(int(self.chance.choice((10, 100, 1000, 5000)) * self.chance.random()))
        used = sum(process.used_bytes for process in self.processes)
        assert used <= LIMIT, f"{used // MIB} MiB are allocated"

    def settle(self) -> None:
        """All messages arrive, and holders give the lock back, until nobody waits for memory."""
        for _ in range(400):
            self.wait(3000)
            for process in self.processes:
                process.say(self.now_us)
                if process.grant and self.chance.random() < 0.3:
                    process.ask_or_release(self.now_us)
                while process.outbox:
                    self.handle(process.outbox.popleft())
                while process.inbox:
                    process.hear()
                process.move()
            if not any(process.waiting for process in self.processes):
                return
        raise AssertionError(f"threads wait for ever: {[process.waiting for process in self.processes]}")


@pytest.mark.parametrize("holds", [False, True])
def test_no_limit_is_passed_and_nobody_waits_for_ever(holds: bool) -> None:
    """Whatever is under way: also for those who hold the lock, and go by a lower allotment only when they do not."""
    for seed in range(150):
        container = Container(seed)
        for count in range(1, STEPS + 1):
            container.step(holds)
            if count % 300 == 0:
                container.settle()

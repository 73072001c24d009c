"""A process with two connections, its door, the driver and the core, as far as ``sleeping.process`` knows of them.

All that is on its way arrives when a test says so, in the order in which it was said on its connection.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import structlog

from nvshare.protocol import wire
from nvshare.scheduler.core.sleep_events import FellAsleep, StayedAwake, WakeWanted, Woke
from nvshare.scheduler.pods.processes import start_time
from nvshare.scheduler.sleeping.process import Means, Process
from nvshare.scheduler.sleeping.sleeper import NOT_SUPPORTED, WAYS, End, Goal, State
from nvshare.scheduler.sleeping.sleepers import Outcome

PID = os.getpid()
GPUS = (0, 1)
_LEAVES = "the end of the connection"
_COMES = "its beginning"
_AFTER = {"lock": State.LOCKED, "checkpoint": State.CHECKPOINTED, "restore": State.LOCKED, "unlock": State.RUNNING}


class Handle:
    """What was to be done later."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.is_cancelled = False

    def cancel(self) -> None:
        """See ``asyncio.Handle``."""
        self.is_cancelled = True


class Loop:
    """An event loop whose time a test makes."""

    def __init__(self) -> None:
        self._handles: list[Handle] = []

    def call_later(self, _seconds: float, work: Callable[..., object], *arguments: object) -> Handle:
        """See ``asyncio``."""
        return self.call_soon(work, *arguments)

    def call_soon(self, work: Callable[..., object], *arguments: object) -> Handle:
        """See ``asyncio``."""
        self._handles.append(Handle(partial(work, *arguments)))
        return self._handles[-1]

    def go_on(self) -> bool:
        """Does all that was to be done later; whether there was anything."""
        due = [handle for handle in self._handles if not handle.is_cancelled]
        self._handles.clear()
        for handle in due:
            if not handle.is_cancelled:
                handle.work()
        return bool(due)


class Sleeper:
    """One at work: it takes a step when a test says so."""

    def __init__(self, world: World, goal: Goal, done: Callable[[Outcome | None], None]) -> None:
        self._world = world
        self.goal = goal
        self.done = done
        self.failed = ("-", 0)

    def give_up(self) -> None:
        """See ``Running``."""
        self._world.sleepers.remove(self)


@dataclass
class Connection:
    """To one GPU's client; both directions."""

    number: int
    to_client: deque[wire.Sleep | wire.Awake] = field(default_factory=deque)
    to_scheduler: deque[wire.Frame | str] = field(default_factory=deque)


class World:
    """All of it."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.means = Means(
            cast(asyncio.AbstractEventLoop, self.loop),
            structlog.wrap_logger(structlog.testing.CapturingLogger()),
            self._start,
            self._hear,
            self._forget,
        )
        self.process: Process | None = None
        self.sleepers: list[Sleeper] = []
        self.driver = State.RUNNING
        self.refuses = False
        """The driver, to checkpoint it."""
        self.is_closed = self.calls = False
        """Its door, and that a call waits there."""
        self.core: str | None = None
        """What the core takes it for: awake, falling, asleep, waking; None: it does not know it."""
        self.wants = False
        """The core knows that it wants to wake."""
        self._numbers = 0
        self._members: set[int] = set()
        """The clients that the core knows."""
        self.connections: dict[int, Connection] = {}
        self.broken: list[Connection] = []
        """Those of which the scheduler has not heard the end."""
        for gpu in GPUS:
            self.connect(gpu)

    # The scheduler.

    def _start(self, pid: int, goal: Goal, done: Callable[[Outcome | None], None]) -> Sleeper:
        assert pid == PID
        assert not self.sleepers, "one sleeper at a time"
        self.sleepers.append(Sleeper(self, goal, done))
        return self.sleepers[-1]

    def _forget(self, process: Process) -> None:
        if self.process is process:
            self.process = None

    def _hear(self, event: FellAsleep | StayedAwake | WakeWanted | Woke) -> None:
        match event:
            case FellAsleep():
                assert self.core in ("awake", "falling")
                assert self.driver is State.CHECKPOINTED
                self.core = "asleep"
            case StayedAwake():
                assert self.core == "falling"
                self.core = "awake"
            case Woke():
                assert self.core == "waking"
                assert self.driver is State.RUNNING
                self.core = "awake"
            case WakeWanted():
                self.wants = True

    def sleep(self) -> bool:
        """The core wants it to sleep, if it may want that."""
        if self.core != "awake" or self.process is None:
            return False
        self.core = "falling"
        self.process.sleep()
        return True

    def wake(self) -> bool:
        """The core wants it awake, if it may want that."""
        if self.core != "asleep" or self.process is None:
            return False
        self.core, self.wants = "waking", False
        self.process.wake()
        return True

    # Sleepers.

    def step(self) -> bool:
        """A sleeper gets one step further, or says where it has come."""
        if not self.sleepers:
            return False
        sleeper = self.sleepers[0]
        step = WAYS[sleeper.goal].get(self.driver)
        if step is None:
            self.sleepers.remove(sleeper)
            end = End.ASLEEP if self.driver is State.CHECKPOINTED else End.AWAKE
            sleeper.done(Outcome(end, *sleeper.failed))
        elif step == "checkpoint" and self.refuses:
            sleeper.goal, sleeper.failed = Goal.SETTLED, (step, NOT_SUPPORTED)
        else:
            self.driver = _AFTER[step]
        return True

    def die(self) -> bool:
        """A sleeper dies."""
        if not self.sleepers:
            return False
        self.sleepers.pop(0).done(None)
        return True

    # The process.

    def connect(self, gpu: int) -> None:
        """A client connects, if it has no connection."""
        if gpu in self.connections:
            return
        self._numbers += 1
        connection = self.connections[gpu] = Connection(self._numbers)
        connection.to_scheduler.append(_COMES)
        if self.is_closed:
            connection.to_scheduler.append(wire.Asleep(0))
        if self.calls:
            connection.to_scheduler.append(wire.Wake())

    def disconnect(self, gpu: int) -> None:
        """A client's connection ends, if it has one; what it was sent, and did not read, is lost."""
        if connection := self.connections.pop(gpu, None):
            connection.to_scheduler.append(_LEAVES)
            self.broken.append(connection)

    def call(self, gpu: int) -> None:
        """A call comes to the door; it is said once."""
        if self.is_closed and not self.calls and gpu in self.connections:
            self.calls = True
            for connection in self.connections.values():
                connection.to_scheduler.append(wire.Wake())

    def read(self, gpu: int, obeys: bool) -> bool:
        """A client reads a frame."""
        connection = self.connections.get(gpu)
        if connection is None or not connection.to_client:
            return False
        match connection.to_client.popleft():
            case wire.Sleep(request):
                self.is_closed = self.is_closed or obeys
                answer = wire.Asleep(request) if self.is_closed else wire.NotAsleep(request, "a call is inside")
                connection.to_scheduler.append(answer)
            case wire.Awake():
                self.is_closed = self.calls = False
        return True

    def hear(self, which: int) -> bool:
        """The scheduler reads what one of all the connections says that it has not heard the end of."""
        connections = [*self.broken, *self.connections.values()]
        connection = connections[which % len(connections)] if connections else None
        if connection is None or not connection.to_scheduler:
            return False
        said = connection.to_scheduler.popleft()
        if said == _LEAVES:
            self.broken.remove(connection)
        self._take(connection, said)
        return True

    def settle(self) -> None:
        """All that is on its way arrives, nothing dies any more, and time goes on; a client at least is there."""
        if not self.connections:
            self.connect(GPUS[0])
        for _ in range(1000):
            moved = [self.read(gpu, obeys=True) for gpu in GPUS]
            moved += [self.hear(which) for which in range(len(self.broken) + len(GPUS))]
            if not (any(moved) or self.step() or self.loop.go_on() or (self.wants and self.wake())):
                return
        raise AssertionError("it comes to no end")

    def check(self) -> None:
        """What holds at any time: nobody is in the driver while that is not running the process."""
        assert self.driver is State.RUNNING or self.is_closed

    def check_settled(self) -> None:
        """It is asleep or awake, and all know that."""
        if self.driver is State.CHECKPOINTED:
            assert (self.is_closed, self.core, self.calls) == (True, "asleep", False)
        else:
            assert (self.driver, self.is_closed, self.core) == (State.RUNNING, False, "awake")
        assert not self.sleepers

    def _take(self, connection: Connection, said: wire.Frame | str) -> None:
        if said == _COMES:
            self.process = self.process or Process(PID, start_time(PID), self.means)
            self.process.join(connection.number, connection.to_client.append)
            self._members.add(connection.number)
            self.core = self.core or "awake"
            return
        assert self.process is not None
        match said:
            case wire.Asleep(request):
                self.process.has_closed(request)
            case wire.NotAsleep(request, text, final):
                self.process.has_not_closed(request, text, final)
            case wire.Wake():
                self.process.wants_to_wake()
            case _:
                self._members.discard(connection.number)
                if not self._members:
                    self.core, self.wants = None, False
                self.process.leave(connection.number)

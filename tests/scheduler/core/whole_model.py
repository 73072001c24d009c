"""Programs of every kind on one node: clients whose memory does not swap, and teams whose work waits for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nvshare.scheduler.core.actions import ConfirmJoin, Watch
from nvshare.scheduler.core.events import (
    Backend,
    ClientIdle,
    ClientRegistered,
    FootprintChanged,
    GangJoined,
    GangLeft,
    ProgressOffered,
    ProgressReported,
)
from tests.scheduler.core.memory.swap_model import MIB, Process

CONTEXT_BYTES = 640 * MIB


@dataclass(frozen=True, slots=True)
class Place:
    """What comes in one slot."""

    device: str
    backend: Backend = Backend.SWAP
    team: str = ""
    """Empty: its processes compute by themselves."""
    container: int | None = None


@dataclass(slots=True, eq=False)
class Team:
    """Processes that make one collective after another, when all have joined."""

    key: str
    size: int
    named: bool = False
    """A user ties them by a name; else NCCL does."""
    sized: bool = True
    """The user said how many they are."""
    over: bool = False
    """One is dead, or has left: the others go on by themselves."""
    members: list[Worker] = field(default_factory=list)

    @property
    def works(self) -> bool:
        """Whether they wait for each other."""
        return not self.over and len(self.members) == self.size and all(each.joined for each in self.members)

    @property
    def completed(self) -> int:
        """How many collectives."""
        return min(member.submitted for member in self.members)


@dataclass(slots=True, eq=False)
class Worker(Process):
    """A process of any kind, as its library knows itself. A gang's member stops only when the others have caught up."""

    backend: Backend = Backend.SWAP
    team: Team | None = None
    joining: bool = False
    joined: bool = False
    submitted: int = 0
    recorded: int | None = None
    """The grant by which it was recorded as a holder, until it is back."""
    former_grant: int | None = None
    """What it held of a scheduler before this one: nobody records that again."""

    @property
    def used_bytes(self) -> int:
        """Of what is on the device in any case; pages of managed memory come and go."""
        if self.backend is Backend.SWAP:
            return Process.used_bytes.__get__(self)
        return self.pinned + (self.footprint if self.backend is Backend.NATIVE else 0)

    def register(self, number: int, device_bytes: int) -> ClientRegistered:
        """It connects, and says again to whom it is tied; only then is it in line."""
        event = replace(Process.register(self, number, device_bytes), backend=self.backend)
        event = replace(event, recorded_grant=self.recorded)
        self.recorded = None
        if self.team is not None and (self.joined or self.joining):
            self.join()
            if self.waits:
                self.waits, event = False, replace(event, claimed=type(event.claimed).IDLE)
                self.ask()
        return event

    def read(self) -> None:
        """It reads one message."""
        if self.inbox and isinstance(self.inbox[0], ConfirmJoin):
            self.joined = self.joining
        Process.read(self)

    def join(self) -> None:
        """It says the key of its team."""
        team = self.team
        assert team is not None
        self.joining = True
        if team.named:
            place, processes = team.members.index(self) + 1, team.size if team.sized else 0
            self.outbox.append(GangJoined(self.number, team.key, 0, 1, team.key, place, processes, self.joined))
        else:
            self.outbox.append(GangJoined(self.number, team.key, team.size, 1))

    def leave_team(self) -> None:
        """Its work is done, or another one of the team is dead."""
        if self.team is not None and (self.joined or self.joining) and self.number:
            self.outbox.append(GangLeft(self.number, self.team.key))
        self.team, self.joined, self.joining = None, False, False

    def idle(self) -> None:
        """Nothing runs of what it submitted."""
        self.outbox.append(ClientIdle(self.number))

    def report(self) -> None:
        """It says what it has."""
        if self.backend is Backend.SWAP:
            Process.report(self)
        else:
            self.outbox.append(FootprintChanged(self.number, self.footprint))

    def grow(self, footprint: int, fixed: int) -> None:
        """It wants more. What does not swap nobody is asked for."""
        if self.backend is Backend.SWAP:
            Process.grow(self, footprint, fixed)
            return
        self.pinned = self.pinned or CONTEXT_BYTES
        self.footprint += footprint
        self.resident = self.allotted = self.footprint
        self.report()


@dataclass(slots=True, eq=False)
class WatchedWorker(Worker):
    """A process that tells how its work goes on while it is asked to."""

    clock: Callable[[], float] = float
    """Seconds."""
    watched: bool = False
    counted: int = 0
    """Submissions."""

    def register(self, number: int, device_bytes: int) -> ClientRegistered:
        event = Worker.register(self, number, device_bytes)
        self.watched = False
        self.outbox.append(ProgressOffered(number))
        return event

    def read(self) -> None:
        grant = self.grant
        if self.inbox and isinstance(self.inbox[0], Watch):
            self.watched = self.inbox[0].interval_seconds > 0
            self.compute(0)
        Worker.read(self)
        if self.grant != grant:
            self.compute(0)

    def compute(self, submissions: int) -> None:
        """It has submitted so much more, and tells so."""
        if self.grant is not None:
            self.counted += submissions
            if self.watched:
                self.outbox.append(ProgressReported(self.number, self.counted, self.clock()))

    def release(self) -> None:
        self.compute(0)
        Worker.release(self)

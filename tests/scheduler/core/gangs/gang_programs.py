"""What the programs of gang_model.py are, and how far they have come."""

from __future__ import annotations

from dataclasses import dataclass, field

from nvshare.scheduler.core.events import ClaimedState

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Program:
    """What a program does."""

    devices: tuple[int, ...]
    """One for each of its processes."""
    start: float = 0.0
    collectives: int = 20
    step_seconds: float = 0.1
    footprint_bytes: int = GIB
    alone_steps: int = 0
    """What each process computes by itself before it joins."""
    pause_every: int = 0
    """After so many collectives the program does nothing for a while; 0: never."""
    pause_seconds: float = 0.0
    leaves: bool = True
    """It leaves its gang at its end, and its processes go on by themselves for some steps."""
    dies_at: float | None = None
    lost_at: float | None = None
    """Its first process loses its connection then."""
    delays: tuple[float, ...] = ()
    """It is a gang by name with a size, whose processes come so long after its start; none, or one for each."""


@dataclass(slots=True, eq=False)
class Process:
    """One process of a program, and what its library knows."""

    job: Job
    device: str
    number: int = 0
    state: ClaimedState = ClaimedState.IDLE
    grant: int = 0
    told: float = 0.0
    """For how long it is to be idle before it leaves; 0: nobody waits."""
    submitted: int = 0
    alone: int = 0
    """Steps that it still makes by itself."""
    joined: bool = False
    busy_until: float = 0.0
    since: float = 0.0
    """When it began to wait, or all of its gang were there that it waited for."""
    connected: bool = False
    ended: bool = False
    page: int = 0
    """Which gang it was told to be in; 0: none."""

    @property
    def has_lock(self) -> bool:
        return self.state in (ClaimedState.HOLDING, ClaimedState.DRAINING)


@dataclass(slots=True, eq=False)
class Job:
    """One run of a program."""

    program: Program
    key: str
    processes: list[Process] = field(default_factory=list)
    paused_until: float = 0.0
    over: bool = False

    @property
    def completed(self) -> int:
        return min(process.submitted for process in self.processes)

    @property
    def is_named(self) -> bool:
        """Whether its processes say its name, and how many there are, as soon as they come."""
        return len(self.processes) > 1 and bool(self.program.delays)

    @property
    def runs(self) -> bool:
        """Whether it makes collectives."""
        return len(self.processes) > 1 and not self.over and all(process.joined for process in self.processes)

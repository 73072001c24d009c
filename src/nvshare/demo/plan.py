"""What one job of the demo has to do, and what the processes of a demo report: as JSON, one document per line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Plan:
    """A job: allocate blocks, run ``steps`` kernels of ``step_ns`` and the arithmetic beside them, check the result."""

    name: str
    ordinal: int
    block_bytes: int
    blocks: int
    steps: int
    step_ns: int
    seed: int
    stamped: bool
    """Take the times of the kernels from the device's own clock (real devices only; simulated ones keep a record)."""

    @property
    def footprint_bytes(self) -> int:
        """What the job allocates in all."""
        return self.block_bytes * self.blocks


@dataclass(frozen=True, slots=True)
class Started:
    """The job has its memory and begins to compute."""

    device: str


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` steps are done."""

    done: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The job has computed its result."""

    right: bool
    detail: str
    stamps: list[list[int]]
    """Start and end of each step in nanoseconds of the device's clock; empty unless the plan asks for it."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The job could not do its work."""

    message: str


@dataclass(frozen=True, slots=True)
class Answered:
    """One of many programs has answered a request; times are of CLOCK_MONOTONIC."""

    begin: float
    end: float
    wrong: int
    """How many numbers of the program's data were not what they must be, and how many requests were not counted."""

    @property
    def seconds(self) -> float:
        """How long the request took."""
        return self.end - self.begin


Event = Started | Progress | Finished | Broken
EVENTS: tuple[type[Event], ...] = (Started, Progress, Finished, Broken)
Kind = TypeVar("Kind", bound=Event | Answered)


def plan_to_text(plan: Plan) -> str:
    """For the job's command line."""
    return json.dumps(asdict(plan))


def plan_from_text(text: str) -> Plan:
    """The reverse of ``plan_to_text``."""
    return Plan(**json.loads(text))


def event_to_line(event: Event | Answered) -> str:
    """For a process's standard output."""
    return json.dumps({"event": type(event).__name__, **asdict(event)})


def event_from_line(line: str, kinds: Iterable[type[Kind]]) -> Kind:
    """The reverse of ``event_to_line`` for events of these kinds; ValueError for anything else."""
    fields = json.loads(line)
    named = {kind.__name__: kind for kind in kinds}
    name = fields.pop("event", None) if isinstance(fields, dict) else None
    if name not in named:
        raise ValueError(f"no event: {line!r}")
    return named[name](**fields)

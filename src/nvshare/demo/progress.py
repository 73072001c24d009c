"""The jobs while they run: what is known of each, redrawn in a terminal, line by line elsewhere."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from rich.console import Console, RenderableType
from rich.live import Live

from nvshare import display
from nvshare.demo import terminal
from nvshare.demo.clients import ClientStates, Seen
from nvshare.demo.errors import DemoError
from nvshare.demo.plan import Broken, Finished, Plan, Progress, Started
from nvshare.demo.processes import Ended, JobEvent, JobEvents
from nvshare.demo.report import DeviceInfo

_TICK_SECONDS = 0.1
_DEADLINE_SECONDS = 100.0


@dataclass(slots=True)
class _Job:
    """What is known of a job at the moment."""

    plan: Plan
    device: DeviceInfo
    pid: int
    state: str = "starting"
    done: int = 0
    holds: bool = False
    held: list[tuple[float, float]] = field(default_factory=list)
    moves: bool = False
    moved: list[tuple[float, float]] = field(default_factory=list)
    resident_bytes: int = 0
    finished: Finished | None = None
    broken: str = ""
    ended: bool = False

    def observe(self, seen: Seen | None, now: float) -> None:
        """Makes the present turn and the present transfer longer, or begins them; ``seen``: None for nothing new."""
        moved_before, held_before = self.moves, self.holds
        if seen is not None:
            self.moves, self.resident_bytes = seen.moves, seen.resident_bytes
        if self.finished is not None or self.ended:
            self.moves, self.resident_bytes = False, 0
        elif seen is not None:
            self.state = seen.state
        self.holds = self.state in ("holding", "leaving", "unresponsive")
        _observe(self.held, held_before, self.holds, now)
        _observe(self.moved, moved_before, self.moves, now)

    def running(self) -> terminal.RunningJob:
        return terminal.RunningJob(
            self.plan.name,
            self.device.uuid,
            self.state,
            self.plan.footprint_bytes,
            self.done / self.plan.steps,
            self.held,
            self.moved,
            self.resident_bytes,
        )


def _observe(intervals: list[tuple[float, float]], before: bool, present: bool, now: float) -> None:
    if present and before:
        intervals[-1] = (intervals[-1][0], now)
    elif present:
        intervals.append((now, now))


class ProgressDisplay:
    """Follows the jobs by their own events and by what the scheduler reports of them, and shows them."""

    def __init__(
        self, console: Console, devices: Sequence[DeviceInfo], plans: Sequence[Plan], pids: Sequence[int]
    ) -> None:
        self._console = console
        self._devices = devices
        self._jobs = [_Job(plan, devices[plan.ordinal], pid) for plan, pid in zip(plans, pids, strict=True)]
        self._start = time.monotonic()
        self._printed: dict[str, str] = {}

    def follow(self, events: JobEvents, client_states: ClientStates) -> list[Finished]:
        """Returns each job's end when all are over; DemoError when one broke or they take far too long."""
        self.watch(events, client_states, _DEADLINE_SECONDS)
        if not self._over():
            raise DemoError(f"the jobs are not done after {_DEADLINE_SECONDS:g} s: {self._summary()}")
        return [self._end_of(job) for job in self._jobs]

    def watch(self, events: JobEvents, client_states: ClientStates, seconds: float) -> None:
        """Returns when all jobs are over, or after so many seconds; DemoError when one broke."""
        with self._live() as live:
            while not self._over() and self._age() <= seconds:
                self._take_events(events)
                self._take_states(client_states())
                if live is None:
                    self._print_changes()
                else:
                    live.update(self._table(), refresh=True)
        for job in self._jobs:
            if job.ended:
                self._end_of(job)

    def _over(self) -> bool:
        return all(job.ended for job in self._jobs)

    @contextmanager
    def _live(self) -> Iterator[Live | None]:
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            yield None
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield live

    def _table(self) -> RenderableType:
        jobs = [job.running() for job in self._jobs]
        return terminal.live(self._devices, jobs, self._age(), self._console.width)

    def _age(self) -> float:
        return time.monotonic() - self._start

    def _take_events(self, events: JobEvents) -> None:
        """Waits a moment for the first event, then takes all that are there."""
        try:
            self._take_event(events.get(timeout=_TICK_SECONDS))
            while True:
                self._take_event(events.get_nowait())
        except queue.Empty:
            pass

    def _take_event(self, received: JobEvent) -> None:
        job = self._jobs[received.place]
        match received.event:
            case Started():
                job.state = "idle"
            case Progress(done):
                job.done = done
            case Finished() as finished:
                job.finished, job.done, job.state = finished, job.plan.steps, "done"
            case Broken(message):
                job.broken = message
            case Ended(exit_code):
                job.ended, job.state = True, "done" if job.finished else f"exit {exit_code}"
            case _:
                assert_never(received.event)

    def _take_states(self, states: Mapping[int, Seen]) -> None:
        now = self._age()
        for job in self._jobs:
            job.observe(states.get(job.pid), now)

    def _print_changes(self) -> None:
        for number, device in enumerate(self._devices):
            states = [f"job {job.plan.name} {job.state}" for job in self._jobs if job.device == device]
            line = f"GPU {number}: {', '.join(states)}"
            if self._printed.get(device.uuid) != line:
                self._printed[device.uuid] = line
                self._console.print(f"{display.duration(self._age()):>7}  {line}", highlight=False)

    def _summary(self) -> str:
        return ", ".join(f"job {job.plan.name} {job.state} at {job.done / job.plan.steps:.0%}" for job in self._jobs)

    def _end_of(self, job: _Job) -> Finished:
        if job.finished is not None:
            return job.finished
        raise DemoError(f"job {job.plan.name} (pid {job.pid}) broke: {job.broken or job.state}")

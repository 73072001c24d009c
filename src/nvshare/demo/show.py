"""One run of the demo's jobs, shown while it happens: as a live picture in a terminal, line by line elsewhere."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from rich.console import Console, RenderableType
from rich.live import Live

from nvshare.ctl import words
from nvshare.ctl.errors import CommandError
from nvshare.ctl.feed import Feed, Lost
from nvshare.demo import picture
from nvshare.demo.plan import Broken, Finished, Plan, Progress, Started
from nvshare.demo.stage import Ended, FromJob, Sayings
from nvshare.demo.story import DeviceSeen

_TICK_SECONDS = 0.1
_DEADLINE_SECONDS = 100.0


@dataclass(slots=True)
class _Job:
    """What is known of a job at the moment."""

    plan: Plan
    device: DeviceSeen
    pid: int
    state: str = "starting"
    done: int = 0
    holds: bool = False
    held: list[tuple[float, float]] = field(default_factory=list)
    finished: Finished | None = None
    broken: str = ""
    ended: bool = False

    def observe(self, now: float) -> None:
        """Lets the present turn grow, or begins one."""
        held_before, self.holds = self.holds, self.state in ("holding", "unresponsive")
        if self.holds and held_before:
            self.held[-1] = (self.held[-1][0], now)
        elif self.holds:
            self.held.append((now, now))

    def now(self) -> picture.JobNow:
        share = self.done / self.plan.steps
        return picture.JobNow(self.plan.name, self.device.uuid, self.state, self.plan.footprint_bytes, share, self.held)


class Show:
    """Follows the jobs by what they say and by what the scheduler says of them."""

    def __init__(
        self, console: Console, devices: Sequence[DeviceSeen], plans: Sequence[Plan], pids: Sequence[int]
    ) -> None:
        self._console = console
        self._devices = devices
        self._jobs = [_Job(plan, devices[plan.ordinal], pid) for plan, pid in zip(plans, pids, strict=True)]
        self._start = time.monotonic()
        self._told: dict[str, str] = {}

    def follow(self, sayings: Sayings, feed: Feed) -> list[Finished]:
        """Returns each job's end when all are over; CommandError when one broke or they take far too long."""
        with self._shown() as live:
            while not all(job.ended for job in self._jobs):
                self._listen(sayings)
                self._observe(feed)
                if live is None:
                    self._tell()
                else:
                    live.update(self._picture(), refresh=True)
                if self._age() > _DEADLINE_SECONDS:
                    raise CommandError(f"the jobs are not done after {_DEADLINE_SECONDS:g} s: {self._summary()}")
        return [self._end_of(job) for job in self._jobs]

    @contextmanager
    def _shown(self) -> Iterator[Live | None]:
        if not self._console.is_terminal:
            yield None
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield live

    def _picture(self) -> RenderableType:
        now = [job.now() for job in self._jobs]
        return picture.live(self._devices, now, self._age(), self._console.width)

    def _age(self) -> float:
        return time.monotonic() - self._start

    def _listen(self, sayings: Sayings) -> None:
        try:
            self._hear(sayings.get(timeout=_TICK_SECONDS))
            while True:
                self._hear(sayings.get_nowait())
        except queue.Empty:
            pass

    def _hear(self, news: FromJob) -> None:
        job = self._jobs[news.place]
        match news.report:
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
                assert_never(news.report)

    def _observe(self, feed: Feed) -> None:
        now = self._age()
        while True:
            try:
                news = feed.get_nowait()
            except queue.Empty:
                break
            if isinstance(news, Lost):
                raise CommandError(f"the demo's scheduler is gone: {news.reason}")
            states = {client.pid: client.state for device in news.devices for client in device.clients}
            for job in self._jobs:
                if job.finished is None and not job.ended:
                    job.state = states.get(job.pid, job.state)
        for job in self._jobs:
            job.observe(now)

    def _tell(self) -> None:
        for number, device in enumerate(self._devices):
            mine = [f"job {job.plan.name} {job.state}" for job in self._jobs if job.device == device]
            line = f"GPU {number}: {', '.join(mine)}"
            if self._told.get(device.uuid) != line:
                self._told[device.uuid] = line
                self._console.print(f"{words.duration(self._age()):>7}  {line}", highlight=False)

    def _summary(self) -> str:
        return ", ".join(f"job {job.plan.name} {job.state} at {job.done / job.plan.steps:.0%}" for job in self._jobs)

    def _end_of(self, job: _Job) -> Finished:
        if job.finished is not None:
            return job.finished
        raise CommandError(f"job {job.plan.name} (pid {job.pid}) broke: {job.broken or job.state}")

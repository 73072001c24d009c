"""The processes of a demo with many programs. All of them have ended when the demo ends."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nvshare.demo import processes
from nvshare.demo.many.plan import Plan, plan_to_text
from nvshare.demo.plan import Answered, Broken
from nvshare.demo.processes import Ended

_EVENTS: tuple[type[Answered | Broken], ...] = (Answered, Broken)


@dataclass(frozen=True, slots=True)
class Heard:
    """What happened to one program."""

    place: int
    """The program's place in the list of plans."""
    event: Answered | Broken | Ended


class Crowd:
    """The programs, which are started one after the other."""

    def __init__(self, plans: Sequence[Plan], environment: Mapping[str, str], errors: IO[bytes]) -> None:
        self.plans = plans
        self.events: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self.processes: list[subprocess.Popen[bytes]] = []
        self._environment, self._errors = environment, errors

    def start_next(self) -> None:
        """The first one that was not started yet."""
        place = len(self.processes)
        command = [sys.executable, "-m", "nvshare.demo.many.program", plan_to_text(self.plans[place])]
        process = processes.start(command, self._environment, subprocess.PIPE, self._errors.fileno())
        self.processes.append(process)
        threading.Thread(target=self._read, args=(place, process), daemon=True).start()

    @property
    def is_complete(self) -> bool:
        """Whether all were started."""
        return len(self.processes) == len(self.plans)

    def _read(self, place: int, process: subprocess.Popen[bytes]) -> None:
        for event in processes.events_of(process, _EVENTS):
            self.events.put(Heard(place, event))


@contextmanager
def crowd(plans: Sequence[Plan], environment: Mapping[str, str], log: Path) -> Iterator[Crowd]:
    """Nobody yet; those that run when the block is left are ended."""
    with log.open("wb") as errors:
        programs = Crowd(plans, environment, errors)
        try:
            yield programs
        finally:
            for process in programs.processes:
                process.terminate()
            for process in programs.processes:
                processes.end(process)


class MemoryUse:
    """How much of the GPU is in use."""

    def __init__(self) -> None:
        self.bytes = 0
        self.most_bytes = 0

    def read(self, output: IO[bytes]) -> None:
        """Until nobody says anything any more."""
        with output:
            for line in output:
                self.bytes = int(line)
                self.most_bytes = max(self.most_bytes, self.bytes)


@contextmanager
def memory_use(environment: Mapping[str, str]) -> Iterator[MemoryUse]:
    """That of the first GPU, for as long as the block lasts."""
    use = MemoryUse()
    command = [sys.executable, "-m", "nvshare.demo.many.memory_use"]
    with processes.process(command, environment, subprocess.PIPE, subprocess.DEVNULL) as process:
        threading.Thread(target=use.read, args=(process.stdout,), daemon=True).start()
        yield use

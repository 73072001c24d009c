"""One program of a row, running: a process, or as many as it has ranks, that are told the same."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench.gpu.running.place import Place
from bench.gpu.running.program import Answer, Program, running


class OutOfTimeError(Exception):
    """A row took longer than it may."""


class Deadline:
    """When a row's time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, most: float) -> float:
        """Seconds that something may take. OutOfTimeError."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise OutOfTimeError(f"not tried: the row has had its {self._seconds:g} s")
        return min(most, left)


ANSWER_SECONDS = 90.0
"""The most that one order may take."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Running; ProgramError from every method when a process of it ended, or is late."""

    programs: Sequence[Program]
    deadline: Deadline

    def send(self, do: str, **arguments: Any) -> None:
        """An order to all."""
        for program in self.programs:
            program.send(do, **arguments)

    def answers(self) -> list[Answer]:
        """One of each."""
        return [program.answer(self.deadline.left(ANSWER_SECONDS)) for program in self.programs]

    def seconds(self) -> float:
        """The answer to ``run``: the longest of all."""
        return max(float(answer["seconds"]) for answer in self.answers())

    def run(self, steps: int) -> float:
        """So many steps; how long they took."""
        self.send("run", steps=steps)
        return self.seconds()

    def dismiss(self) -> None:
        """Lets it end by itself. All ranks are told before one is waited for: they may wait for each other."""
        for program in self.programs:
            assert program.process.stdin is not None
            with suppress(BrokenPipeError):
                program.process.stdin.close()

    def end(self) -> None:
        """Waits for its end, or kills it."""
        for program in self.programs:
            program.end()


def start(
    place: Place,
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    ranks: int,
    deadline: Deadline,
) -> Instance:
    """Starts all ranks; their first answer, that they are there, is not waited for."""
    if ranks == 1:
        programs = [place.stack.enter_context(running(name, command, environment, place.logs))]
        return Instance(programs, deadline)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(ranks)}
    programs = []
    for rank in range(ranks):
        own = {**environment, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        programs.append(place.stack.enter_context(running(f"{name}-{rank}", command, own, place.logs)))
    return Instance(programs, deadline)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])

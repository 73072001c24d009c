"""Programs that an experiment starts: each in a process group of its own, told what to do, killed at the end."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parents[1] / "programs"
ENDING_SECONDS = 10.0
TAIL_BYTES = 3000

Answer = dict[str, Any]


class ProgramError(Exception):
    """A program ended, or said nothing in time; the text has the end of its stderr."""


@dataclass(frozen=True, slots=True)
class Program:
    """A running program that takes orders."""

    name: str
    process: subprocess.Popen[str]
    log: Path
    _answers: queue.Queue[str | None]

    def send(self, do: str, **arguments: Any) -> None:
        """An order whose answer is fetched later."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("ended") from None

    def answer(self, seconds: float = 120.0) -> Answer:
        """Its next answer; ProgramError when it ends before, or after so long."""
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise self._failed(f"gave no answer within {seconds:g} s") from None
        if line is None:
            raise self._failed("ended")
        answer: Answer = json.loads(line)
        return answer

    def ask(self, do: str, **arguments: Any) -> Answer:
        """An order and its answer."""
        self.send(do, **arguments)
        return self.answer()

    def said(self) -> str:
        """Its stderr so far."""
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        """Closes its input; it is killed when that is not enough."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDING_SECONDS)
        kill(self.process)

    def _failed(self, what: str) -> ProgramError:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        code = self.process.poll()
        ended = "it still runs" if code is None else f"exit code {code}"
        return ProgramError(f"the program {self.name} {what} ({ended}):\n{self.said()[-TAIL_BYTES:]}")


def kill(process: subprocess.Popen[Any]) -> None:
    """Ends a process and all that it started, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def starting(
    name: str, script: str, environment: Mapping[str, str], logs: Path, *arguments: object
) -> Iterator[Program]:
    """A program of ``programs/``, killed at the end of the block, as ``running`` says."""
    command = [sys.executable, str(PROGRAMS / script), *(str(each) for each in arguments)]
    with running(name, command, environment, logs) as program:
        yield program


@contextmanager
def running(name: str, command: Sequence[str], environment: Mapping[str, str], logs: Path) -> Iterator[Program]:
    """Any program that takes orders, killed at the end of the block with all that it started.

    Its first answer says that it is there; that is not waited for.
    """
    log = logs / f"{name}-{time.monotonic_ns()}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    answers: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, answers), daemon=True)
    reader.start()
    try:
        yield Program(name, process, log, answers)
    finally:
        kill(process)
        reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                # What could not be written any more is nobody's.
                with suppress(BrokenPipeError):
                    pipe.close()


def _read(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put(None)

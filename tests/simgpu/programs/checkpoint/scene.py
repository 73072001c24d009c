"""The processes of one situation, which do what they are told, and what is said about them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.simgpu.programs.checkpoint.program import Program

PATIENCE_SECONDS = 8.0
SILENT = "no answer"
DEAD = "died"
STILL_THERE = "still there"


class Worker:
    """A process of its own that obeys a Program's orders, one after the other."""

    def __init__(self) -> None:
        self._pipe, its = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._pipe.close()
            try:
                _obey(its)
            finally:
                os._exit(1)
        its.close()
        self._owed = 0

    def tell(self, order: str, *arguments: Any) -> None:
        """An order whose answer is asked for later."""
        self._pipe.send((order, arguments))
        self._owed += 1

    def answer(self, seconds: float = PATIENCE_SECONDS) -> Any:
        """The answer to the oldest order that has none yet; SILENT after so long, DEAD from a process that ended."""
        try:
            if not self._pipe.poll(seconds):
                return SILENT
            answer = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            return DEAD
        self._owed -= 1
        return answer

    def __call__(self, order: str, *arguments: Any) -> Any:
        """An order and its answer; SILENT at once from a process that still owes another one."""
        while self._owed:
            if self.answer(0) in (SILENT, DEAD):
                return SILENT
        try:
            self.tell(order, *arguments)
        except BrokenPipeError:
            return DEAD
        return self.answer()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> str:
        """Sends a signal; how the process ended."""
        os.kill(self.pid, number)
        return self.end()

    def end(self, seconds: float = 3.0) -> str:
        """How the process ended, if it did within so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return f"status {os.waitstatus_to_exitcode(status)}"
            time.sleep(0.01)
        return STILL_THERE


def _obey(pipe: Connection) -> None:
    program = Program()
    while True:
        try:
            order, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(program, order)(*arguments))
        except Exception as failure:
            pipe.send(f"failed: {failure}")


class Scene:
    """Where a situation takes place. What does not depend on the device is said, the rest is measured."""

    def __init__(self, name: str, file: Path) -> None:
        self._name, self._file = name, file

    def _write(self, line: str) -> None:
        with self._file.open("a") as file:
            file.write(line + "\n")

    def say(self, text: str, answer: Any) -> None:
        """An answer that is to be the same each time."""
        self._write(f"{self._name}: {text} = {answer}")

    def measure(self, text: str, answer: Any) -> None:
        """One that may differ."""
        self._write(f"# {self._name}: {text}: {answer}")

    def caller(self) -> Worker:
        """A process that has only initialized the driver."""
        worker = Worker()
        if worker("initialize") != 0:
            raise RuntimeError("cuInit failed")
        return worker

    def target(self, kind: str | None = None, mib: int = 2) -> Worker:
        """A process with a context, and so much of a kind."""
        worker = Worker()
        if (started := worker("start")) != 0:
            raise RuntimeError(f"a process did not start: {started}")
        if kind:
            self.say(f"make {kind}", worker("hold", kind, mib))
        return worker

    def step(self, who: Worker, step: str, pid: int, text: str = "", **options: Any) -> None:
        """Says what a step gives, and measures it."""
        answer = who("step", step, pid, *options.values())
        result, ms = answer if isinstance(answer, tuple) else (answer, PATIENCE_SECONDS * 1000)
        self.say(f"{step}{text}", result)
        self.measure(f"{step}{text}, ms", f"{ms:.1f}")

    def steps(self, who: Worker, pid: int, steps: Sequence[str], text: str = "") -> None:
        """Steps one after the other, with the state after each."""
        for step in steps:
            self.step(who, step, pid, text)
            self.say(f"state after {step}{text}", who("state", pid))

    def sleep(self, who: Worker, pid: int) -> None:
        """Lock and checkpoint."""
        self.steps(who, pid, ("lock", "checkpoint"))

    def wake(self, who: Worker, pid: int) -> None:
        """Restore and unlock."""
        self.steps(who, pid, ("restore", "unlock"))

    def memory(self, who: Worker, text: str) -> int:
        """Measures the device's memory; MiB that are free. The process needs a context."""
        free, used, processes = who("device_memory")
        self.measure(text, f"free {free} MiB; NVML: used {used} MiB, processes {processes}")
        return int(free)

"""Sixteen programs that share simulated GPUs: how they are started, watched, and replaced when they were killed."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.programs.compiler import KERNELS

_PAGE = struct.Struct("<QI")
"""``struct page`` of programs/chaos.c: rounds, stop."""


@dataclass(slots=True)
class Program:
    """One place among the programs; who was killed is followed by another process."""

    executable: Path
    folder: Path
    name: str
    devices: tuple[int, ...]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] = field(init=False)
    stopped: bool = False
    """By SIGSTOP."""
    _page: mmap.mmap = field(init=False)
    _asked_to_end: bool = False

    def __post_init__(self) -> None:
        path = self.folder / f"{self.name}.page"
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _PAGE.size)

    @property
    def errors(self) -> Path:
        """What the place's processes said on stderr."""
        return self.folder / f"{self.name}.stderr"

    def said(self) -> str:
        """The last of that."""
        return self.errors.read_text(errors="replace")[-1000:]

    @property
    def rounds(self) -> int:
        """How many rounds the place's processes have done; every one was right."""
        rounds: int = _PAGE.unpack_from(self._page)[0]
        return rounds

    def start(self, seed: int) -> None:
        """Starts a process."""
        page = self.folder / f"{self.name}.page"
        command = [str(self.executable), str(KERNELS), str(page), str(seed), *map(str, self.devices)]
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(command, env=dict(self.environment), stdout=errors, stderr=errors)

    def kill(self) -> None:
        """Kills the process."""
        self.process.kill()
        self.process.wait()
        self.stopped = False

    def stop(self) -> None:
        """Stops the process in the middle of what it does."""
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def resume(self) -> None:
        """Lets a stopped process go on."""
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def ask_to_end(self) -> None:
        """The process ends after its present round."""
        self._asked_to_end = True
        self._page[8:12] = (1).to_bytes(4, "little")

    def failed(self) -> str:
        """What is wrong, if the process ended without being asked to, or badly; empty: nothing."""
        code = self.process.poll()
        if code is None or (code == 0 and self._asked_to_end):
            return ""
        return f"{self.name} (pid {self.process.pid}, devices {self.devices}) ended with {code}: {self.said()}"

    def where(self) -> str:
        """Where each of its threads is, for somebody who wonders why it does not go on."""
        return f"{self.name} after {self.rounds} rounds, devices {self.devices}:{threads(self.process.pid)}"


def threads(pid: int) -> str:
    """Where each thread of a process is, a line each."""
    found = ""
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        with_state = (task / "status").read_text().partition("State:\t")[2].partition("\n")[0]
        found += f"\n  {task.name} {(task / 'comm').read_text().strip()} {with_state} {_text(task / 'wchan')}"
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def programs(executable: Path, folder: Path, environment: Mapping[str, str], random: Random) -> list[Program]:
    """Sixteen places on two devices; two of them use both."""
    places = [
        Program(executable, folder, f"program-{number}", (0, 1) if number < 2 else (number % 2,), environment)
        for number in range(16)
    ]
    for place in places:
        place.start(random.getrandbits(32))
    return places


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with these variables."""
    return {**os.environ, **variables}

"""Jobs whose ranks wait for each other in their kernels: started, stopped, killed and looked at by a launcher."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import build_native
from nvshare import paths
from tests.chaos.programs import threads
from tests.shim.gang_job import Job

PLACES = ((0, 1), (0, 0, 1))
"""On which devices the ranks of each gang are, each in a process of its own."""
FILLED = "fill=64"
"""MiB that a rank looks at and writes anew all the time."""


@dataclass(slots=True)
class Gang:
    """One place for a job; when a rank was killed all of the job is, and another one follows."""

    folder: Path
    name: str
    devices: tuple[int, ...]
    """Of its ranks."""
    environment: Mapping[str, str]
    stopped: list[subprocess.Popen[str]] = field(default_factory=list)
    """By SIGSTOP."""
    job: Job = field(init=False)
    _ended: bool = False
    all_pids: list[set[int]] = field(default_factory=list)
    """Of each job that ever was in this place."""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        own = {paths.GANG: self.name, "PYTHONPATH": f"{build_native.ROOT}:{build_native.SOURCES}"}
        self.environment = {**self.environment, **own}

    @property
    def pids(self) -> set[int]:
        """Of the job's processes."""
        return {process.pid for process in self.job.processes}

    @property
    def rounds(self) -> int:
        """How many all ranks of the present job have submitted."""
        return min(self.job.submitted)

    def start(self) -> None:
        """Starts a job."""
        self.job = Job(dict(self.environment), self.folder, len(self.devices))
        for rank, device in enumerate(self.devices):
            self.job.start(f"{rank}:{device}", FILLED)
        self.all_pids.append(self.pids)

    def kill(self) -> None:
        """Kills what is left of the job, as a launcher does when a rank has ended."""
        self.job.end()
        self.stopped.clear()

    def stop(self, process: subprocess.Popen[str]) -> None:
        """Stops a rank in the middle of what it does."""
        process.send_signal(signal.SIGSTOP)
        self.stopped.append(process)

    def resume(self) -> None:
        """Lets all go on."""
        for process in self.stopped:
            process.send_signal(signal.SIGCONT)
        self.stopped.clear()

    def failed(self) -> str:
        """What is wrong, if a rank ended; empty: nothing."""
        if self._ended or all(process.poll() is None for process in self.job.processes):
            return ""
        codes = [process.poll() for process in self.job.processes]
        return f"ranks of gang {self.name} ended with {codes}: {self.said()}"

    def finish(self) -> None:
        """Lets the job end, and compares what it has computed."""
        self.job.finish(200)
        self._ended = True

    def said(self) -> str:
        """The last of what all ranks have said on stderr."""
        return self.job.errors()[-1000:]

    def where(self) -> str:
        """Where each thread of its ranks is, for somebody who wonders why it does not go on."""
        ranks = "".join(threads(process.pid) for process in self.job.processes)
        return f"{self.name} after {self.job.submitted} rounds, devices {self.devices}:{ranks}"


def gangs(folder: Path, environment: Mapping[str, str]) -> list[Gang]:
    """All places, each with a job."""
    places = [
        Gang(folder / f"gang-{number}", f"gang-{number}", devices, environment) for number, devices in enumerate(PLACES)
    ]
    for place in places:
        place.start()
    return places


def pages(pid: int) -> int:
    """How many pages of gangs a scheduler has open or mapped."""
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except OSError:
            continue
    mapped = Path(f"/proc/{pid}/maps").read_text().count("nvshare-gang")
    return mapped + sum("nvshare-gang" in link for link in links)

"""Cuts of gangs on simulated GPUs: jobs whose kernels wait for each other, and a scheduler that stops all of a job."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.simgpu import record
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.shim.children import PROGRAMS, ROOT
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.gang_scheduler import GangScheduler
from tests.shim.programs import gang_member


@dataclass(slots=True)
class Job:
    """The processes of one job, and the memory that they share."""

    environment: dict[str, str]
    folder: Path
    ranks: int
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    words: memoryview = field(init=False)

    def __post_init__(self) -> None:
        path = self.folder / "shared"
        path.write_bytes(bytes(gang_member.FILE_BYTES))
        with path.open("r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), gang_member.FILE_BYTES)).cast("Q")
        self.words[gang_member.LAST] = 1 << 40

    def start(self, *placed: str) -> None:
        """Starts one more process, with these ranks and options."""
        command = [
            sys.executable,
            str(PROGRAMS / "gang_member.py"),
            str(self.folder / "shared"),
            str(self.ranks),
            *placed,
        ]
        with (self.folder / f"errors-{len(self.processes)}").open("w") as errors:
            self.processes.append(
                subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True)
            )

    @property
    def submitted(self) -> list[int]:
        """How many rounds each rank has submitted."""
        return [self.words[gang_member.SUBMITTED + rank] for rank in range(self.ranks)]

    def runs(self, rounds: int = 20) -> None:
        """Waits until all have submitted so many more."""
        before = self.submitted
        poll_until(
            lambda: all(now >= then + rounds for now, then in zip(self.submitted, before, strict=True)),
            "the job runs",
            timeout=30,
        )

    def finish(self) -> None:
        """Lets it end, and compares what it has computed."""
        last = self.words[gang_member.LAST] = max(self.submitted) + 1500
        found = {}
        for process in self.processes:
            output = process.communicate(timeout=60)[0]
            assert process.returncode == 0
            found.update(tuple(map(int, line.split())) for line in output.splitlines())
        right = gang_member.expected(self.ranks, last)
        assert found == dict.fromkeys(range(self.ranks), right)

    def errors(self) -> str:
        """What all have said on stderr."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("errors-*")))

    def end(self) -> None:
        """Ends what still runs."""
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def start_job(environment: dict[str, str], libraries: Libraries, tmp_path: Path) -> Iterator[Callable[[int], Job]]:
    """A job of so many ranks, without processes."""
    own = {
        "LD_PRELOAD": str(libraries.shim),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        paths.SIMGPU_DEVICES: "4x1GiB/1MiB",
        paths.MEMORY: "native",
        paths.DEBUG: "1",
    }
    jobs: list[Job] = []

    def start(ranks: int) -> Job:
        jobs.append(Job(environment | own, tmp_path, ranks))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


def check_stopped(folder: Path, devices: int, stopped: list[tuple[int, int]]) -> None:
    """Nothing ran on any device while the gang had given the lock back."""
    for device in range(devices):
        for span in record.read(folder / "simgpu", device):
            assert not [1 for start, end in stopped if span.start_ns < end and start < span.end_ns], span


LAYOUTS = {
    "two": [["0:0"], ["1:1"]],
    "three": [["0:0"], ["1:1"], ["2:2"]],
    "four": [["0:0"], ["1:1"], ["2:2"], ["3:3"]],
    "one process, one thread": [["0:0", "1:1"]],
    "one process, two threads": [["0:0", "1:1", "threads=1"]],
    "rank 0 submits more": [["0:0", "extra=3"], ["1:1"]],
    "mostly idle": [["0:0", "think=3000"], ["1:1", "think=3000"]],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_cuts_under_load(
    start_job: Callable[[int], Job], fake_scheduler: FakeScheduler, tmp_path: Path, name: str
) -> None:
    """A job is stopped and goes on many times, at whatever place it is, and computes the same; none stays open."""
    layout = LAYOUTS[name]
    ranks = sum(":" in word for words in layout for word in words)
    job, gang = start_job(ranks), GangScheduler(fake_scheduler)
    for words in layout:
        job.start(*words)
    gang.gather(ranks)
    gang.grant()
    for _ in range(int(os.environ.get("NVSHARE_TEST_CUTS", "100"))):
        job.runs(5)
        gang.cut()
        gang.grant()
    job.finish()
    check_stopped(tmp_path, ranks, gang.stopped)

"""Jobs whose kernels wait for each other, in processes under the library, for tests of cuts."""

from __future__ import annotations

import mmap
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from nvshare.protocol import gang as gang_layout
from nvshare.protocol import wire
from nvshare.simgpu import record
from tests.c_parts import ffi, lib
from tests.polling import poll_until
from tests.shim.children import PROGRAMS
from tests.shim.gang_scheduler import GangScheduler
from tests.shim.lock_server import Peer
from tests.shim.programs import gang_member

PATIENCE = 100.0
"""Seconds for the rounds that are left: a cut takes some where a machine has more to do than processors."""


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

    def finish(self, rounds: int = 1500) -> None:
        """Lets it end after so many more, and compares what it has computed."""
        last = self.words[gang_member.LAST] = max(self.submitted) + rounds
        found = {}
        for process in self.processes:
            output = process.communicate(timeout=PATIENCE)[0]
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
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def check_stopped(folder: Path, devices: int, stopped: list[tuple[int, int]]) -> None:
    """Nothing ran on any device while the gang had given the lock back."""
    for device in range(devices):
        for span in record.read(folder / "simgpu", device):
            assert not [1 for start, end in stopped if span.start_ns < end and start < span.end_ns], span


def start_two(job: Job, gang: GangScheduler, *options: str, of_both: str = "") -> None:
    """Two ranks in processes of their own; the options are rank 0's. They have the lock."""
    job.start("0:0", *options, *([of_both] if of_both else []))
    job.start("1:1", *([of_both] if of_both else []))
    gang.gather(2)
    gang.grant()


def by_rank(job: Job, gang: GangScheduler) -> list[Peer]:
    """The gang's members in the order of the job's processes."""
    return [next(peer for peer in gang.peers if peer.register.pid == process.pid) for process in job.processes]


def entered(gang: GangScheduler, slot: int) -> bool:
    """The member takes part in a cut."""
    raw = ffi.from_buffer("struct nvs_gang_page *", gang.page)
    return bool(raw.statuses[slot].flags & lib.NVS_GANG_IN)


def orders(gang: GangScheduler) -> int:
    """How many commands were given."""
    raw = ffi.from_buffer("struct nvs_gang_page *", gang.page)
    return int(max(command.version for command in raw.commands)) // gang_layout.SLOTS


def reached(job: Job, round_number: int) -> None:
    """Waits until all ranks have submitted what comes before a round, and it is over."""
    poll_until(lambda: job.submitted == [round_number - 1] * job.ranks, "all wait", timeout=30)
    poll_until(lambda: all(job.words[rank * 4] == round_number - 1 for rank in range(job.ranks)), "all is over")


def ends_drain(peer: Peer) -> bool:
    """Waits for the end of a drain. Whether the lock was given back: otherwise it was put off."""
    while True:
        match peer.receive():
            case wire.LockReleased():
                return True
            case wire.DrainReport(_, wire.Drain.PUT_OFF):
                return False

"""What was seen in a demo, and whether it is as it must be: what the terminal, the page and the trace show. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nvshare import display
from nvshare.simgpu.transfers import Transfer, stalled_ns, transfers, work
from nvshare.simgpu.turns import Span, Turn, overlaps, turns


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device of the demo."""

    uuid: str
    name: str
    total_bytes: int


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job of the demo and how it ended."""

    name: str
    pid: int
    device: str
    """The UUID of the device that it used."""
    footprint_bytes: int
    right: bool
    """Whether it computed what it had to compute."""
    detail: str


@dataclass(frozen=True, slots=True)
class Paging:
    """The same jobs for a while, at the same time and with memory that the driver pages."""

    seconds: float
    """How long they were watched."""
    slowdown: float
    """How many times longer they took for a step than with memory that swaps."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole demo."""

    simulated: bool
    policy: str
    quantum_seconds: float
    devices: Sequence[DeviceInfo]
    jobs: Sequence[JobResult]
    spans: Mapping[str, Sequence[Span]]
    """Everything that each device executed, by the device's UUID."""
    turns: Mapping[str, Sequence[Turn]]
    """The turns on each device, by the device's UUID."""
    overlaps: int
    """How often an operation began beside one of another process, on all devices together."""
    transfers: Mapping[str, Sequence[Transfer]]
    """Memory that was swapped, by the device's UUID."""
    stalled_ns: int
    """For how long a device did nothing but move memory, on all devices together."""
    paging: Paging | None = None
    """None: that was not tried."""

    @property
    def start_ns(self) -> int:
        """When the first operation began, on the devices' clock."""
        return min((span.start_ns for spans in self.spans.values() for span in spans), default=0)

    @property
    def end_ns(self) -> int:
        """When the last operation ended."""
        return max((span.end_ns for spans in self.spans.values() for span in spans), default=0)

    @property
    def good(self) -> bool:
        """Every result is right, no two jobs were on a device at once, and the record shows that every job ran."""
        recorded = {span.pid for spans in self.spans.values() for span in spans}
        return self.overlaps == 0 and all(job.right and job.pid in recorded for job in self.jobs)

    def jobs_of(self, device: str) -> Iterator[JobResult]:
        """The jobs that ran on the device."""
        return (job for job in self.jobs if job.device == device)

    def moved_bytes(self, *, out: bool) -> int:
        """How much was swapped out, or in, on all devices."""
        return sum(each.bytes for each in self._transfers() if each.out is out)

    @property
    def hidden_share(self) -> float:
        """Of what was swapped, what moved while another job computed, 0 to 1."""
        moved = sum(each.bytes for each in self._transfers())
        return sum(each.hidden_bytes for each in self._transfers()) / moved if moved else 1.0

    def transfers_of(self, job: JobResult) -> list[Transfer]:
        """What of the job's memory was swapped."""
        return [each for each in self.transfers.get(job.device, ()) if each.pid == job.pid]

    def _transfers(self) -> Iterator[Transfer]:
        return (each for found in self.transfers.values() for each in found)

    def turns_of(self, job: JobResult) -> list[Turn]:
        """The turns that the job had."""
        return [turn for turn in self.turns.get(job.device, ()) if turn.pid == job.pid]


def make_report(
    simulated: bool,
    policy: str,
    quantum_seconds: float,
    devices: Sequence[DeviceInfo],
    jobs: Sequence[JobResult],
    spans: Mapping[str, Sequence[Span]],
) -> Report:
    """The report of these devices and jobs, given everything that each device executed."""
    worked = {device: work(executed) for device, executed in spans.items()}
    return Report(
        simulated,
        policy,
        quantum_seconds,
        devices,
        jobs,
        spans,
        {device: turns(executed) for device, executed in worked.items()},
        sum(len(overlaps(executed)) for executed in worked.values()),
        {device: transfers(executed) for device, executed in spans.items()},
        sum(stalled_ns(executed) for executed in spans.values()),
    )


def summary(report: Report) -> str:
    """What was seen, whether it was right, and on what kind of device."""
    kind = "simulated GPU" if report.simulated else "real GPU"
    right = sum(job.right for job in report.jobs)
    each = display.size(max((job.footprint_bytes for job in report.jobs), default=0))
    memory = display.size(max((device.total_bytes for device in report.devices), default=0))
    together = "never were two of them on one GPU at once" if not report.overlaps else "TWO WERE ON ONE GPU AT ONCE"
    turn_count = display.count(sum(len(found) for found in report.turns.values()), "turn")
    seen = (
        f"Seen: {display.count(len(report.jobs), 'job')} of {each} each on "
        f"{display.count(len(report.devices), kind)} of {memory} took {turn_count}; "
        f"{together} (overlaps: {report.overlaps}); {right} of {len(report.jobs)} results are right.{_swapped(report)}"
    )
    if report.simulated:
        return (
            f"{seen}{_paged(report.paging)} This was simulated: the GPUs were software and their times a model; "
            f"the library, the scheduler and the protocol between them were the real ones."
        )
    return f"{seen} The times are from the GPU's own clock."


def _swapped(report: Report) -> str:
    out, back = report.moved_bytes(out=True), report.moved_bytes(out=False)
    if not out + back:
        return ""
    length = (report.end_ns - report.start_ns) * max(len(report.devices), 1)
    return (
        f" Swapped: {display.size(out)} out and {display.size(back)} in, {report.hidden_share:.0%} of it while another "
        f"job computed; for {display.duration(report.stalled_ns / 1e9)} of {display.duration(length / 1e9)} "
        f"({report.stalled_ns / length:.0%}) a GPU waited for data."
    )


def _paged(paging: Paging | None) -> str:
    if paging is None:
        return ""
    return (
        f" Without turns and paged by the driver, a step took {paging.slowdown:.1f} times as long, by the simulator's "
        f"model of page faults (watched for {display.duration(paging.seconds)})."
    )

"""What was seen in a demo, put together for those who show it: the terminal, the page and the trace. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nvshare.ctl import words
from nvshare.demo.spans import Span, Turn, overlaps, turns


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    """A device of the demo."""

    uuid: str
    name: str
    total_bytes: int


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job of the demo and how it ended."""

    name: str
    pid: int
    device: str
    footprint_bytes: int
    right: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Story:
    """A whole demo."""

    simulated: bool
    policy: str
    quantum_seconds: float
    devices: Sequence[DeviceSeen]
    jobs: Sequence[JobSeen]
    spans: Sequence[Span]
    turns: Sequence[Turn]
    overlaps: int

    @property
    def start_ns(self) -> int:
        """When the first piece of work began, on the devices' clock."""
        return min((span.start_ns for span in self.spans), default=0)

    @property
    def end_ns(self) -> int:
        """When the last piece of work ended."""
        return max((span.end_ns for span in self.spans), default=0)

    @property
    def good(self) -> bool:
        """Every result is right and no two jobs were on a device at once, and there is a record that shows it."""
        recorded = {span.pid for span in self.spans}
        return self.overlaps == 0 and all(job.right and job.pid in recorded for job in self.jobs)

    def jobs_of(self, device: str) -> Iterator[JobSeen]:
        """The jobs that ran there."""
        return (job for job in self.jobs if job.device == device)

    def turns_of(self, device: str, pid: int) -> list[Turn]:
        """The turns that the job had there."""
        return [turn for turn in self.turns if turn.device == device and turn.pid == pid]


def tell(
    simulated: bool,
    policy: str,
    quantum_seconds: float,
    devices: Sequence[DeviceSeen],
    jobs: Sequence[JobSeen],
    spans: Sequence[Span],
) -> Story:
    """The story of these devices and jobs, given everything that the devices executed."""
    counted = len(overlaps(spans))
    return Story(simulated, policy, quantum_seconds, devices, jobs, spans, turns(spans), counted)


def sentence(story: Story) -> str:
    """What was seen, whether it was right, and on what kind of device."""
    kind = "simulated GPU" if story.simulated else "real GPU"
    right = sum(job.right for job in story.jobs)
    each = words.size(max((job.footprint_bytes for job in story.jobs), default=0))
    memory = words.size(max((device.total_bytes for device in story.devices), default=0))
    together = "never were two of them on one GPU at once" if not story.overlaps else "TWO WERE ON ONE GPU AT ONCE"
    seen = (
        f"Seen: {words.count(len(story.jobs), 'job')} of {each} each on {words.count(len(story.devices), kind)} of "
        f"{memory} took {words.count(len(story.turns), 'turn')}; {together} (overlaps: {story.overlaps}); "
        f"{right} of {len(story.jobs)} results are right."
    )
    if story.simulated:
        return (
            f"{seen} This was simulated: the GPUs were software and their times a model; "
            f"the library, the scheduler and the protocol between them were the real ones."
        )
    return f"{seen} The times are from the GPU's own clock."

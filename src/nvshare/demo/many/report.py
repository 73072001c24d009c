"""What was seen of many programs, and whether it is as it must be. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nvshare import display
from nvshare.demo.clients import Did
from nvshare.demo.plan import Answered
from nvshare.demo.report import DeviceInfo


@dataclass(frozen=True, slots=True)
class Program:
    """One of them, and what became of it."""

    pid: int
    requests: int
    """That it had to answer."""
    answers: Sequence[Answered]
    lived: bool
    """It was there to the end."""
    sleeps: int
    """How often it fell asleep."""
    deeds: Sequence[Did]

    @property
    def right(self) -> int:
        """How many answers were."""
        return sum(answer.wrong == 0 for answer in self.answers)

    @property
    def wakes(self) -> int:
        """How often it came back."""
        return sum(did.what == "waking" for did in self.deeds)

    def of_sleep(self) -> Iterator[float]:
        """What the requests took that came while it slept, in seconds."""
        woke = [did for did in self.deeds if did.what == "waking"]
        for answer in self.answers:
            if any(did.begin < answer.end and did.end > answer.begin for did in woke):
                yield answer.seconds


@dataclass(frozen=True, slots=True)
class Report:
    """All of them."""

    device: DeviceInfo
    context_bytes: int
    sleep_after_seconds: float
    programs: Sequence[Program]
    begin: float
    """Of CLOCK_MONOTONIC."""
    end: float
    most_asleep: int
    """At a time, with nothing on the GPU."""
    most_bytes: int
    """Of the GPU that were in use at a time, as NVML said it."""

    @property
    def good(self) -> bool:
        """All lived, slept, and gave all their answers, which were right."""
        return all(each.lived and each.sleeps and each.right == each.requests for each in self.programs)

    @property
    def length(self) -> float:
        """In seconds."""
        return self.end - self.begin

    def since_begin(self, program: Program, *what: str) -> list[tuple[float, float]]:
        """When a program did one of these, in seconds after the beginning."""
        return [(did.begin - self.begin, did.end - self.begin) for did in program.deeds if did.what in what]


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of them don't exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)] if ordered else 0.0


def summary(report: Report) -> str:
    """What was seen, and on what kind of device."""
    programs = report.programs
    asked = sum(each.requests for each in programs)
    woken = [seconds for each in programs for seconds in each.of_sleep()]
    lived = sum(each.lived for each in programs)
    slept = sum(each.sleeps > 0 for each in programs)
    contexts = display.size(report.context_bytes * len(programs))
    return (
        f"Seen: {lived} of {display.count(len(programs), 'program')} lived side by side on one simulated GPU of "
        f"{display.size(report.device.total_bytes)}, of which their contexts alone would take {contexts}; at most "
        f"{display.size(report.most_bytes)} were in use. {sum(each.right for each in programs)} of "
        f"{display.count(asked, 'answer')} are right. {display.count(slept, 'program')} slept, "
        f"{report.most_asleep} at a time; {display.count(sum(each.sleeps for each in programs), 'sleep')} and "
        f"{display.count(sum(each.wakes for each in programs), 'wake')}. {_took(woken)} This was simulated: the GPU "
        f"was software, and how long a context takes to leave and to come is a model; the library, the scheduler and "
        f"the protocol between them were the real ones."
    )


def _took(woken: Sequence[float]) -> str:
    if not woken:
        return "No request came to a program that slept."
    median, most = (f"{percentile(woken, percent):.2f} s" for percent in (50, 99))
    return f"A request to a program that slept took {median} (p50; p99 {most}; {len(woken)} of them)."

"""What the demo reports: the summary, the verdict, the timelines, the page and the trace."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import groupby

import pytest
from rich.console import Console

from nvshare.demo import terminal
from nvshare.demo.html_page import html_page
from nvshare.demo.report import DeviceInfo, JobResult, Paging, Report, make_report, summary
from nvshare.demo.trace import chrome_trace
from nvshare.simgpu.turns import Kind, Span
from nvshare.timeline import strips
from nvshare.timeline.chart import tick_seconds

GIB = 1024**3
SECOND = 1_000_000_000


def report(spans: list[Span], right: bool = True, simulated: bool = True) -> Report:
    """Two jobs on one device."""
    devices = [DeviceInfo("GPU-1", "Simulated <GPU>", 16 * GIB)]
    jobs = [
        JobResult("A", 11, "GPU-1", 12 * GIB, right, "sum 1"),
        JobResult("B", 12, "GPU-1", 12 * GIB, True, "sum 2"),
    ]
    return make_report(simulated, "auto", 2.0, devices, jobs, {"GPU-1": spans})


def span(pid: int, start: float, end: float) -> Span:
    """A kernel, in seconds after some moment."""
    return Span(pid, Kind.KERNEL, "kernel", int((100 + start) * SECOND), int((100 + end) * SECOND), pid)


def moved(pid: int, start: float, end: float, gib: float, *, out: bool) -> Span:
    """A copy that swaps, in seconds after some moment."""
    name = "copy to host" if out else "copy to device"
    begin_ns, end_ns = (int((100 + each) * SECOND) for each in (start, end))
    return Span(pid, Kind.COPY, name, begin_ns, end_ns, pid, int(gib * GIB))


TURNS = [span(11, 0, 2), span(12, 2, 4), span(11, 4, 5)]
SWAPPED = [
    span(11, 0, 2),
    moved(12, 1.5, 2, 2, out=False),
    moved(11, 2, 3, 4, out=True),
    moved(12, 2, 2.5, 2, out=False),
    span(12, 3, 5),
]
"""B's memory begins to come in beside A's work; the rest waits until A has left and its memory makes room."""


def test_good() -> None:
    """Right results, turns, no overlap: the summary has the figures and says that it was simulated."""
    good = report(TURNS)
    assert good.good
    assert summary(good).startswith(
        "Seen: 2 jobs of 12.0 GiB each on 1 simulated GPU of 16.0 GiB took 3 turns; never were two of them on one GPU "
        "at once (overlaps: 0); 2 of 2 results are right. This was simulated"
    )
    assert "simulated" not in summary(report(TURNS, simulated=False))


@pytest.mark.parametrize(
    "bad",
    [
        report(TURNS, right=False),
        report([*TURNS, span(12, 4.5, 4.6)]),
        report([span(11, 0, 2)]),
    ],
    ids=["wrong result", "overlap", "a job without a record"],
)
def test_not_good(bad: Report) -> None:
    """A wrong result, an overlap, and a job of which no record shows that it ran at all each spoil the demo."""
    assert not bad.good


def test_swapping_is_no_work() -> None:
    """What moves is neither a turn nor an overlap; the summary says how much moved and was hidden."""
    swapped = report(SWAPPED)
    assert swapped.good
    assert [(turn.pid, turn.pieces) for turn in swapped.turns["GPU-1"]] == [(11, 1), (12, 1)]
    assert (swapped.moved_bytes(out=True), swapped.moved_bytes(out=False)) == (4 * GIB, 4 * GIB)
    assert swapped.hidden_share == 0.25
    assert (
        "Swapped: 4.0 GiB out and 4.0 GiB in, 25% of it while another job computed; "
        "for 1.0 s of 5.0 s (20%) a GPU waited for data."
    ) in summary(swapped)
    assert "Swapped" not in summary(report(TURNS))


def test_paging_is_compared() -> None:
    """The summary says what the same jobs took when the driver paged, and nothing where that was not tried."""
    paged = replace(report(SWAPPED), paging=Paging(12.0, 17.04))
    assert "paged by the driver, a step took 17.0 times as long, by the simulator's model" in summary(paged)
    assert "paged" not in summary(report(SWAPPED))


def test_swapping_is_drawn() -> None:
    """The timeline is shaded where memory moved, the table has the sums, the page a thin bar for each transfer."""
    swapped = report(SWAPPED)
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(terminal.timeline(swapped, 100))
        console.print(terminal.results(swapped))
    lines = capture.get().splitlines()
    first, second = (next(line[7:] for line in lines if line.startswith(f"job {name}")) for name in "AB")
    shades = [mark for mark, run in groupby(first.rstrip()) if len(list(run)) > 1]
    assert shades == ["█", "░", "·"]
    assert [mark for mark, run in groupby(second.rstrip()) if len(list(run)) > 1] == ["·", "░", "·", "█"]
    [line] = [line.split() for line in lines if line.startswith("A ")]
    assert line[2:] == ["12.0", "GiB", "1", "2.0", "s", "4.0", "GiB", "0", "B", "right,", "sum", "1"]
    page = html_page(swapped)
    assert page.count('<rect class="swap"') == 2
    assert "job B (pid 12), 4.0 GiB in: 1.500 s to 2.500 s, 50% of it beside another job&#x27;s work" in page


def test_swapping_in_the_trace() -> None:
    """A track of its own for each job's memory, with the bytes."""
    slices = [event for event in json.loads(chrome_trace(report(SWAPPED)))["traceEvents"] if event["ph"] == "X"]
    moves = [event for event in slices if event["name"].startswith("swap-")]
    assert [(event["name"], event["ts"], event["dur"], event["args"]["hidden_bytes"]) for event in moves] == [
        ("swap-in 4.0 GiB", 1.5e6, 1e6, 2 * GIB),
        ("swap-out 4.0 GiB", 2e6, 1e6, 0),
    ]
    assert not {event["tid"] for event in moves} & {event["tid"] for event in slices if event not in moves}
    assert not any("copy" in event["name"] for event in slices)


def test_devices_are_apart() -> None:
    """What runs on one device at the time of something on another is no overlap and ends no turn."""
    devices = [DeviceInfo(uuid, "", 16 * GIB) for uuid in ("GPU-1", "GPU-2")]
    jobs = [JobResult("A", 7, "GPU-1", GIB, True, ""), JobResult("B", 8, "GPU-2", GIB, True, "")]
    spans = {"GPU-1": [span(7, 0, 10), span(7, 10, 20)], "GPU-2": [span(8, 5, 15)]}
    both = make_report(True, "auto", 2.0, devices, jobs, spans)
    assert [[turn.pieces for turn in both.turns_of(job)] for job in jobs] == [[2], [1]]
    assert both.overlaps == 0


def test_coverage() -> None:
    """Each cell of a strip has the share of its time that the turns cover."""
    assert strips.coverage([(0.0, 1.0), (2.5, 3.0)], 0.0, 4.0, 4) == pytest.approx([1.0, 0.0, 0.5, 0.0])
    assert strips.coverage([(0.0, 4.0)], 0.0, 4.0, 4) == pytest.approx([1.0] * 4)
    assert strips.coverage([], 0.0, 0.0, 2) == [0.0, 0.0]


@pytest.mark.parametrize("width", [80, 120])
def test_timeline_fits(width: int) -> None:
    """The bars show who had the device when, no line is wider than the terminal."""
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(terminal.timeline(report(TURNS), width))
    lines = capture.get().splitlines()
    assert all(len(line) <= width for line in lines)
    first, second = (next(line for line in lines if line.startswith(f"job {name}")) for name in "AB")
    bar_a, bar_b = first[7:], second[7:]
    assert bar_a.startswith("█")
    assert bar_a.rstrip().endswith("█")
    assert bar_b.startswith("·")
    assert "█" in bar_b
    assert not any(a == b == "█" for a, b in zip(bar_a, bar_b, strict=True))


class _Tags(HTMLParser):
    """Counts elements and checks that what is opened is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "rect") or (tag == "rect" and dict(attrs).get("class") in ("turn", "swap")):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page() -> None:
    """A bar a turn, names escaped, nothing fetched from elsewhere."""
    text = html_page(report([*TURNS, *SWAPPED[1:4]]))
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    bars = [attributes for tag, attributes in tags.seen if tag == "rect" and attributes.get("class") == "turn"]
    assert len(bars) == 3
    assert "Simulated &lt;GPU&gt;" in text
    assert not re.search(r"(src|href)=|@import|url\(", text)
    assert "job A (pid 11), turn 2: 4.000 s to 5.000 s" in text


def test_trace() -> None:
    """Chrome's trace event format: a slice a turn and a slice a piece of work, in microseconds from the start."""
    found = json.loads(chrome_trace(report(TURNS)))
    slices = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"]) for event in slices if event["name"].startswith("turn")] == [
        ("turn 1: job A", 0.0, 2e6),
        ("turn 2: job B", 2e6, 2e6),
        ("turn 3: job A", 4e6, 1e6),
    ]
    assert sum(event["name"] == "kernel" for event in slices) == 3
    named = {event["tid"] for event in found["traceEvents"] if event["name"] == "thread_name"}
    assert {event["tid"] for event in slices} == named


@pytest.mark.parametrize("length", [0.004, 0.5, 3.0, 16.0, 60.0, 600.0])
def test_ticks(length: float) -> None:
    """An axis has some marks but not too many, at round numbers."""
    step = tick_seconds(length, 12)
    assert 2 <= length / step <= 12
    assert f"{step:.0e}"[0] in "125"

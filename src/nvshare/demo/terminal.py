"""The demo in the terminal: the jobs while they run, and the timeline at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nvshare import display
from nvshare.demo.html_page import tick_seconds
from nvshare.demo.report import DeviceInfo, Report

COLORS = ("cyan", "dark_orange", "dodger_blue1", "orchid")
_PROGRESS_CELLS = 20


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job while it runs."""

    name: str
    device: str
    state: str
    footprint_bytes: int
    share_done: float
    """Of its steps, 0 to 1."""
    held: Sequence[tuple[float, float]]
    """From when to when it held the lock, in seconds since the demo's start."""
    moved: Sequence[tuple[float, float]]
    """The same of the times in which its memory came in or left."""
    resident_bytes: int
    """What of its memory is on the device."""


def live(devices: Sequence[DeviceInfo], jobs: Sequence[RunningJob], now: float, width: int) -> RenderableType:
    """Who holds what at this moment, and who held it since the demo's start."""
    parts: list[RenderableType] = []
    for number, device in enumerate(devices):
        parts += [Text(), _title(number, device)]
        mine = [(place, job) for place, job in enumerate(jobs) if job.device == device.uuid]
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for column in ("left", "left", "left", "left", "right"):
            table.add_column(justify="right" if column == "right" else "left", no_wrap=True)
        for place, job in mine:
            table.add_row(
                Text(f"job {job.name}", style=_color(place)),
                Text(f"{job.state:<12}", style=display.STATE_STYLES.get(job.state, "dim")),
                f"{display.size(job.resident_bytes):>8} of {display.size(job.footprint_bytes)} on the GPU",
                _progress(job.share_done, _color(place)),
                f"{job.share_done:4.0%}",
            )
        parts.append(table)
        for place, job in mine:
            parts.append(_strip(f"job {job.name}", job.held, job.moved, now, max(now, 20.0), width, _color(place)))
    parts.append(axis(max(now, 20.0), width))
    return Group(*parts)


def timeline(report: Report, width: int) -> RenderableType:
    """The turns by the devices' record: for each device a bar for each of its jobs, shaded where its memory moved."""
    parts: list[RenderableType] = []
    length = (report.end_ns - report.start_ns) / 1e9
    places = {job.pid: place for place, job in enumerate(report.jobs)}
    for number, device in enumerate(report.devices):
        parts.append(_title(number, device))
        for job in report.jobs_of(device.uuid):
            held, moved = (
                [((each.start_ns - report.start_ns) / 1e9, (each.end_ns - report.start_ns) / 1e9) for each in found]
                for found in (report.turns_of(job), report.transfers_of(job))
            )
            parts.append(_strip(f"job {job.name}", held, moved, length, length, width, _color(places[job.pid])))
        parts += [axis(length, width), Text()]
    return Group(*parts)


def results(report: Report) -> RenderableType:
    """For each job a line: its turns, what of its memory was swapped, and whether its result is right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("JOB", "PID", "MEMORY", "TURNS", "ON THE GPU", "OUT", "IN"):
        table.add_column(name, justify="left" if name == "JOB" else "right", no_wrap=True)
    table.add_column("RESULT")
    for place, job in enumerate(report.jobs):
        turns = report.turns_of(job)
        moved = report.transfers_of(job)
        busy = sum(turn.busy_ns for turn in turns) / 1e9
        mark = ("right", "bold green") if job.right else ("WRONG", "bold red")
        table.add_row(
            Text(job.name, style=_color(place)),
            str(job.pid),
            display.size(job.footprint_bytes),
            str(len(turns)),
            display.duration(busy),
            *(display.size(sum(each.bytes for each in moved if each.out is out)) for out in (True, False)),
            Text.assemble(mark, f", {job.detail}"),
        )
    return table


def axis(length: float, width: int) -> Text:
    """Seconds under the strips."""
    cells = _cells(width)
    line = [" "] * (cells + 1)
    step = tick_seconds(length, max(cells // 10, 2))
    number = 0
    while length and number * step <= length:
        label = f"{number * step:g}s"
        at = round(number * step / length * cells)
        if at + len(label) <= len(line):
            line[at : at + len(label)] = label
        number += 1
    return Text(" " * _LABEL + "".join(line), style="dim")


_LABEL = 7


def _cells(width: int) -> int:
    return max(width - _LABEL - 2, 20)


def _strip(
    label: str,
    held: Iterable[tuple[float, float]],
    moved: Iterable[tuple[float, float]],
    now: float,
    length: float,
    width: int,
    color: str,
) -> Text:
    """A bar where the lock was held, shaded where memory moved, dots where neither was, nothing after ``now``.

    On an axis of ``length`` seconds.
    """
    cells = _cells(width)
    shares = [0.0, *coverage(held, 0.0, length, cells), 0.0]
    moving = coverage(moved, 0.0, length, cells)
    past = round(min(now / length, 1.0) * cells) if length else 0
    text = Text(f"{label:<{_LABEL}}", style=color, no_wrap=True)
    marks = "".join(
        _mark(before, share, after, moves) if cell < past or share > 0 else " "
        for cell, (before, share, after, moves) in enumerate(zip(shares, shares[1:], shares[2:], moving, strict=False))
    )
    for style, run in groupby(marks, key=lambda mark: "dim" if mark == "·" else color):
        text.append("".join(run), style=style)
    return text


def _mark(before: float, share: float, after: float, moving: float) -> str:
    """The sign for a cell of which this share is covered, between two neighbours; ``moving`` is the share of moves."""
    if share >= 0.75:
        return "█"
    if share >= 0.25:
        return "▐" if after > before else "▌"
    return "░" if moving >= 0.25 else "·"


def coverage(held: Iterable[tuple[float, float]], start: float, end: float, cells: int) -> list[float]:
    """Which share of each of ``cells`` equal parts of ``start`` to ``end`` the intervals cover, 0 to 1."""
    shares = [0.0] * cells
    width = (end - start) / cells
    if width <= 0:
        return shares
    for left, right in held:
        first = max(int((left - start) / width), 0)
        last = min(int((right - start) / width), cells - 1)
        for cell in range(first, last + 1):
            low, high = start + cell * width, start + (cell + 1) * width
            shares[cell] += max(min(right, high) - max(left, low), 0) / width
    return [min(share, 1.0) for share in shares]


def _title(number: int, device: DeviceInfo) -> Text:
    return Text.assemble(
        (f"GPU {number}", "bold"), f"  {device.name}, {display.size(device.total_bytes)}  ", (device.uuid, "dim")
    )


def _progress(share: float, color: str) -> Text:
    done = round(share * _PROGRESS_CELLS)
    return Text.assemble(("━" * done, color), ("╌" * (_PROGRESS_CELLS - done), "bright_black"))


def _color(place: int) -> str:
    return COLORS[place % len(COLORS)]

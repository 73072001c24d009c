"""The demo in the terminal: the jobs while they run, and the timeline at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nvshare import display
from nvshare.demo.report import DeviceInfo, Report
from nvshare.timeline import strips

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
                Text(f"job {job.name}", style=strips.color(place)),
                Text(f"{job.state:<12}", style=display.STATE_STYLES.get(job.state, "dim")),
                f"{display.size(job.resident_bytes):>8} of {display.size(job.footprint_bytes)} on the GPU",
                _progress(job.share_done, strips.color(place)),
                f"{job.share_done:4.0%}",
            )
        parts.append(table)
        for place, job in mine:
            parts.append(
                strips.strip(f"job {job.name}", job.held, job.moved, now, max(now, 20.0), width, strips.color(place))
            )
    parts.append(strips.axis(max(now, 20.0), width))
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
            parts.append(
                strips.strip(f"job {job.name}", held, moved, length, length, width, strips.color(places[job.pid]))
            )
        parts += [strips.axis(length, width), Text()]
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
            Text(job.name, style=strips.color(place)),
            str(job.pid),
            display.size(job.footprint_bytes),
            str(len(turns)),
            display.duration(busy),
            *(display.size(sum(each.bytes for each in moved if each.out is out)) for out in (True, False)),
            Text.assemble(mark, f", {job.detail}"),
        )
    return table


def _title(number: int, device: DeviceInfo) -> Text:
    return Text.assemble(
        (f"GPU {number}", "bold"), f"  {device.name}, {display.size(device.total_bytes)}  ", (device.uuid, "dim")
    )


def _progress(share: float, color: str) -> Text:
    done = round(share * _PROGRESS_CELLS)
    return Text.assemble(("━" * done, color), ("╌" * (_PROGRESS_CELLS - done), "bright_black"))

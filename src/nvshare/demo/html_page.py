"""The report as one HTML file that needs no other: the summary, a timeline of each device, a table of the jobs."""

from __future__ import annotations

from html import escape

from nvshare import display
from nvshare.demo.report import JobResult, Report, summary
from nvshare.simgpu.transfers import Transfer
from nvshare.simgpu.turns import Turn
from nvshare.timeline import page
from nvshare.timeline.chart import Bar, Chart, Row, Shape


def html_page(report: Report) -> str:
    """The document."""
    how = f"policy {report.policy}, quantum {report.quantum_seconds:g} s"
    note = f"{how}. Point at a turn, or at a thin bar of memory that moved, for its figures."
    length = (report.end_ns - report.start_ns) / 1e9
    return page.html_page("Who had the GPU when", summary(report), note, length, _charts(report), [_table(report)])


def _charts(report: Report) -> list[Chart]:
    colors = {job.pid: number for number, job in enumerate(report.jobs)}
    return [
        Chart(
            f"GPU {number}: {device.name}, {display.size(device.total_bytes)}",
            device.uuid,
            [Row(f"job {job.name}", colors[job.pid], _bars(report, job)) for job in report.jobs_of(device.uuid)],
        )
        for number, device in enumerate(report.devices)
    ]


def _bars(report: Report, job: JobResult) -> list[Bar]:
    turns = [
        Bar(*_seconds(report, turn), Shape.FULL, _figures(report, job, number, turn))
        for number, turn in enumerate(report.turns_of(job), start=1)
    ]
    return turns + [
        Bar(*_seconds(report, moved), Shape.THIN, _moved(report, job, moved)) for moved in report.transfers_of(job)
    ]


def _seconds(report: Report, each: Turn | Transfer) -> tuple[float, float]:
    return (each.start_ns - report.start_ns) / 1e9, (each.end_ns - report.start_ns) / 1e9


def _moved(report: Report, job: JobResult, moved: Transfer) -> str:
    start, end = _seconds(report, moved)
    return (
        f"job {job.name} (pid {job.pid}), {display.size(moved.bytes)} {'out' if moved.out else 'in'}: {start:.3f} s to "
        f"{end:.3f} s, {moved.hidden_bytes / moved.bytes:.0%} of it beside another job's work"
    )


def _figures(report: Report, job: JobResult, number: int, turn: Turn) -> str:
    start, end = _seconds(report, turn)
    return (
        f"job {job.name} (pid {job.pid}), turn {number}: {start:.3f} s to {end:.3f} s, "
        f"{display.count(turn.pieces, 'piece')} of work, GPU busy for {turn.busy_ns / 1e9:.3f} s"
    )


def _table(report: Report) -> str:
    head = "<tr><th>job</th><th>pid</th><th>memory</th><th>turns</th><th>time on the GPU</th><th>out</th>"
    head += "<th>in</th><th>result</th></tr>"
    rows = []
    for job in report.jobs:
        turns = report.turns_of(job)
        out, back = (
            display.size(sum(each.bytes for each in report.transfers_of(job) if each.out is out))
            for out in (True, False)
        )
        busy = sum(turn.busy_ns for turn in turns) / 1e9
        mark = '<span class="right">right</span>' if job.right else '<span class="wrong">WRONG</span>'
        rows.append(
            f"<tr><td>{escape(job.name)}</td><td>{job.pid}</td><td>{display.size(job.footprint_bytes)}</td>"
            f"<td>{len(turns)}</td><td>{busy:.1f} s</td><td>{out}</td><td>{back}</td>"
            f"<td>{mark}, {escape(job.detail)}</td></tr>"
        )
    return f"<h2>Jobs</h2><table>{head}{''.join(rows)}</table>"

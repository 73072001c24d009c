"""The report as one HTML file that needs no other: the summary, a timeline of each device, a table of the jobs."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from nvshare import display
from nvshare.demo.report import DeviceInfo, JobResult, Report, summary
from nvshare.simgpu.transfers import Transfer
from nvshare.simgpu.turns import Turn

_WIDTH = 1000
_LEFT = 70
_ROW = 34
_BAR = 22
_THIN = 5
_AXIS = 26
_COLORS = ("#2a9d8f", "#e9803a", "#5b7fde", "#c2549d")
_STYLE = """
:root { color-scheme: light dark; --text: #1d2430; --dim: #67707e; --line: #d8dde5; --back: #fff; --row: #f4f6f9 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e7ee; --dim: #98a2b3; --line: #353d4a; --back: #14181f; --row: #1c222b }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1040px;
  margin: 2.5rem auto; padding: 0 1.25rem }
h1 { font-size: 1.5rem; margin: 0 0 .5rem } h2 { font-size: 1.05rem; margin: 2rem 0 .25rem }
p.dim, .dim { color: var(--dim) } svg { width: 100%; height: auto; display: block }
svg text { font: 13px system-ui, sans-serif; fill: var(--text) } svg text.axis { fill: var(--dim); font-size: 12px }
svg .row { fill: var(--row) } svg .tick { stroke: var(--line) } svg rect:hover { opacity: .75 }
table { border-collapse: collapse; margin-top: .5rem } td, th { text-align: right; padding: .3rem 1.1rem .3rem 0 }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left } th { color: var(--dim);
  font-weight: 500 } td { font-variant-numeric: tabular-nums; border-top: 1px solid var(--line) }
.right { color: #2a9d8f } .wrong { color: #d1495b; font-weight: 600 }
"""


def html_page(report: Report) -> str:
    """The document."""
    how = f"policy {report.policy}, quantum {report.quantum_seconds:g} s"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>nvshare: who had the GPU when</title><style>{_STYLE}</style></head><body>",
        "<h1>Who had the GPU when</h1>",
        f"<p>{escape(summary(report))}</p>",
        f'<p class="dim">{escape(how)}. Point at a turn, or at a thin bar of memory that moved, for its figures.</p>',
        *(_device(report, number, device) for number, device in enumerate(report.devices)),
        _table(report),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _device(report: Report, number: int, device: DeviceInfo) -> str:
    jobs = list(report.jobs_of(device.uuid))
    height = _ROW * len(jobs) + _AXIS
    title = f"GPU {number}: {device.name}, {display.size(device.total_bytes)}"
    lines = [
        f'<h2>{escape(title)} <span class="dim">{escape(device.uuid)}</span></h2>',
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        *_axis(report, height),
        *(line for row, job in enumerate(jobs) for line in _row(report, row, job)),
        "</svg>",
    ]
    return "\n".join(lines)


def _axis(report: Report, height: int) -> Iterator[str]:
    step = tick_seconds((report.end_ns - report.start_ns) / 1e9, 12)
    second = 0.0
    while second * 1e9 <= report.end_ns - report.start_ns:
        x = _x(report, report.start_ns + round(second * 1e9))
        yield f'<line class="tick" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - _AXIS + 4}"/>'
        yield f'<text class="axis" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{second:g} s</text>'
        second += step


def _row(report: Report, row: int, job: JobResult) -> Iterator[str]:
    top = row * _ROW + (_ROW - _BAR) / 2
    color = _COLORS[[each.pid for each in report.jobs].index(job.pid) % len(_COLORS)]
    yield f'<rect class="row" x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT}" height="{_BAR}" rx="3" opacity=".6"/>'
    yield f'<text x="0" y="{top + 16}">job {escape(job.name)}</text>'
    for number, turn in enumerate(report.turns_of(job), start=1):
        left, right = _x(report, turn.start_ns), _x(report, turn.end_ns)
        yield (
            f'<rect class="turn" x="{left:.2f}" y="{top}" width="{max(right - left, 1):.2f}" height="{_BAR}" rx="3" '
            f'fill="{color}"><title>{escape(_figures(report, job, number, turn))}</title></rect>'
        )
    for moved in report.transfers_of(job):
        left, right = _x(report, moved.start_ns), _x(report, moved.end_ns)
        yield (
            f'<rect class="swap" x="{left:.2f}" y="{top + _BAR}" width="{max(right - left, 1):.2f}" height="{_THIN}" '
            f'fill="{color}"><title>{escape(_moved(report, job, moved))}</title></rect>'
        )


def _moved(report: Report, job: JobResult, moved: Transfer) -> str:
    start, end = ((time - report.start_ns) / 1e9 for time in (moved.start_ns, moved.end_ns))
    return (
        f"job {job.name} (pid {job.pid}), {display.size(moved.bytes)} {'out' if moved.out else 'in'}: {start:.3f} s to "
        f"{end:.3f} s, {moved.hidden_bytes / moved.bytes:.0%} of it beside another job's work"
    )


def _figures(report: Report, job: JobResult, number: int, turn: Turn) -> str:
    start, end = ((time - report.start_ns) / 1e9 for time in (turn.start_ns, turn.end_ns))
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


def tick_seconds(length: float, most: int) -> float:
    """The distance of at most ``most`` ticks on an axis of ``length`` seconds: 1, 2 or 5 times a power of ten."""
    step = 0.001
    for factor in (2, 2.5, 2) * 8:
        if length / step <= most:
            break
        step *= factor
    return step


def _x(report: Report, time_ns: int) -> float:
    length = max(report.end_ns - report.start_ns, 1)
    return _LEFT + (_WIDTH - _LEFT - 20) * (time_ns - report.start_ns) / length

"""Many programs as one HTML file, a row for each program, and as a trace for https://ui.perfetto.dev. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nvshare import display
from nvshare.demo.many.report import Program, Report, summary
from nvshare.timeline import page
from nvshare.timeline.chart import Bar, Chart, Row, Shape
from nvshare.timeline.trace import Trace

_SHAPES = {
    "asleep": Shape.FAINT,
    "waking": Shape.PALE,
    "waiting": Shape.PALE,
    "holding": Shape.FULL,
    "leaving": Shape.FULL,
    "out": Shape.THIN,
    "in": Shape.THIN,
}


def html_page(report: Report) -> str:
    """The document."""
    note = (
        f"A program sleeps when it has done nothing for {report.sleep_after_seconds:g} s. Full bars are turns, pale "
        f"ones waits, the palest sleep, thin ones memory that moved; where there is none the program rests with its "
        f"context on the GPU. Point at one for its figures."
    )
    rows = [
        Row(f"program {number}", 0, list(_bars(report, program)))
        for number, program in enumerate(report.programs, start=1)
    ]
    chart = Chart(f"{report.device.name}, {display.size(report.device.total_bytes)}", report.device.uuid, rows)
    return page.html_page("Who slept when", summary(report), note, report.length, [chart])


def _bars(report: Report, program: Program) -> Iterator[Bar]:
    for what, shape in _SHAPES.items():
        for begin, end in report.since_begin(program, what):
            text = f"pid {program.pid}: {what} for {end - begin:.3f} s, {begin:.3f} s to {end:.3f} s"
            yield Bar(begin, end, shape, text)


def chrome_trace(report: Report) -> str:
    """A track for each program's states, its requests and its memory."""
    trace = Trace()
    uuid = report.device.uuid
    trace.add_device(uuid, report.device.name)
    for number, program in enumerate(report.programs, start=1):
        details = {"pid": program.pid}
        for what, shape in _SHAPES.items():
            track = f"program {number}: {'memory' if shape is Shape.THIN else 'state'}"
            for begin, end in report.since_begin(program, what):
                trace.add_slice(uuid, track, what, begin * 1e6, (end - begin) * 1e6, details)
        for place, answer in enumerate(program.answers, start=1):
            begin, label = answer.begin - report.begin, f"request {place}{' WRONG' if answer.wrong else ''}"
            trace.add_slice(uuid, f"program {number}: requests", label, begin * 1e6, answer.seconds * 1e6, details)
    return trace.text()

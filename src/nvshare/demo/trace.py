"""The turns as a file for https://ui.perfetto.dev or chrome://tracing."""

from __future__ import annotations

from nvshare import display
from nvshare.demo.report import Report
from nvshare.simgpu.transfers import Transfer, work
from nvshare.simgpu.turns import Span, Turn
from nvshare.timeline.trace import Trace


def chrome_trace(report: Report) -> str:
    """A process for each device. In it each job has tracks: its turns, what it executed, and its memory that moved.

    Times begin at the start of the first operation.
    """
    trace = Trace()
    job_names = {job.pid: f"job {job.name}" for job in report.jobs}
    for number, device in enumerate(report.devices):
        trace.add_device(device.uuid, f"GPU {number} {device.name}")

    def name_of(pid: int) -> str:
        return job_names.get(pid, f"pid {pid}")

    def add(uuid: str, each: Turn | Transfer | Span, track: str, label: str, details: dict[str, int | float]) -> None:
        begin, length = (each.start_ns - report.start_ns) / 1000, (each.end_ns - each.start_ns) / 1000
        trace.add_slice(uuid, f"{name_of(each.pid)}: {track}", label, begin, length, {"pid": each.pid, **details})

    turns = [(uuid, turn) for uuid, found in report.turns.items() for turn in found]
    for number, (uuid, turn) in enumerate(sorted(turns, key=lambda each: (each[1].start_ns, each[0])), start=1):
        details = {"pieces": turn.pieces, "busy_ms": turn.busy_ns / 1e6}
        add(uuid, turn, "turns", f"turn {number}: {name_of(turn.pid)}", details)
    for uuid, moved in report.transfers.items():
        for each in moved:
            label = f"swap-{'out' if each.out else 'in'} {display.size(each.bytes)}"
            add(uuid, each, "swapping", label, {"bytes": each.bytes, "hidden_bytes": each.hidden_bytes})
    for uuid, spans in report.spans.items():
        for span in work(spans):
            add(uuid, span, "work", span.name, {})
    return trace.text()

"""The turns as a file for https://ui.perfetto.dev or chrome://tracing: Chrome's trace event format."""

from __future__ import annotations

import json
from typing import Any

from nvshare import display
from nvshare.demo.report import Report
from nvshare.simgpu.transfers import work

_TURNS, _WORK, _SWAPPING = "turns", "work", "swapping"


def chrome_trace(report: Report) -> str:
    """A process for each device. In it each job has tracks: its turns, what it executed, and its memory that moved.

    Times begin at the start of the first operation.
    """
    devices = {device.uuid: number for number, device in enumerate(report.devices, start=1)}
    job_names = {job.pid: f"job {job.name}" for job in report.jobs}
    tracks: dict[tuple[str, int, str], int] = {}
    events: list[dict[str, Any]] = []
    for number, device in enumerate(report.devices):
        events.append(_name("process_name", devices[device.uuid], 0, f"GPU {number} {device.name}"))

    def name_of(pid: int) -> str:
        return job_names.get(pid, f"pid {pid}")

    def place(device: str, pid: int, kind: str) -> tuple[int, int]:
        """The numbers of the device and of the track, which is named when it is first used."""
        if (device, pid, kind) not in tracks:
            tracks[device, pid, kind] = len(tracks) + 1
            events.append(_name("thread_name", devices[device], tracks[device, pid, kind], f"{name_of(pid)}: {kind}"))
        return devices[device], tracks[device, pid, kind]

    origin = report.start_ns
    turns = [(uuid, turn) for uuid, found in report.turns.items() for turn in found]
    for number, (uuid, turn) in enumerate(sorted(turns, key=lambda each: (each[1].start_ns, each[0])), start=1):
        where = place(uuid, turn.pid, _TURNS)
        details = {"pid": turn.pid, "pieces": turn.pieces, "busy_ms": turn.busy_ns / 1e6}
        length_ns = turn.end_ns - turn.start_ns
        events.append(_slice(f"turn {number}: {name_of(turn.pid)}", *where, turn.start_ns - origin, length_ns, details))
    for uuid, moved in report.transfers.items():
        for each in moved:
            where = place(uuid, each.pid, _SWAPPING)
            details = {"pid": each.pid, "bytes": each.bytes, "hidden_bytes": each.hidden_bytes}
            label = f"swap-{'out' if each.out else 'in'} {display.size(each.bytes)}"
            events.append(_slice(label, *where, each.start_ns - origin, each.end_ns - each.start_ns, details))
    for uuid, spans in report.spans.items():
        for span in work(spans):
            where = place(uuid, span.pid, _WORK)
            length_ns = span.end_ns - span.start_ns
            events.append(_slice(span.name, *where, span.start_ns - origin, length_ns, {"pid": span.pid}))
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _name(what: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": text}}


def _slice(
    label: str, process: int, thread: int, start_ns: int, length_ns: int, details: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": start_ns / 1000, "dur": length_ns / 1000}
    return {"ph": "X", "name": label, "pid": process, "tid": thread, **times, "args": details}

"""The turns as a file for https://ui.perfetto.dev or chrome://tracing: Chrome's trace event format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nvshare.demo.spans import Span, Turn

_TURNS, _WORK = "turns", "work"


def chrome_trace(
    turns: Sequence[Turn], spans: Sequence[Span], device_names: Mapping[str, str], job_names: Mapping[int, str]
) -> str:
    """A process a device; in it two tracks a job: its turns, and what it executed.

    Times begin at the start of the first turn.
    """
    origin = min((span.start_ns for span in spans), default=0)
    devices = {device: number for number, device in enumerate(device_names, start=1)}
    tracks: dict[tuple[str, int, str], int] = {}
    events: list[dict[str, Any]] = []
    for device, number in devices.items():
        events.append(_name("process_name", number, 0, device_names[device]))

    def track(device: str, pid: int, kind: str) -> int:
        if (device, pid, kind) not in tracks:
            tracks[device, pid, kind] = len(tracks) + 1
            label = f"{job_names.get(pid, f'pid {pid}')}: {kind}"
            events.append(_name("thread_name", devices[device], tracks[device, pid, kind], label))
        return tracks[device, pid, kind]

    for number, turn in enumerate(turns, start=1):
        label = f"turn {number}: {job_names.get(turn.pid, f'pid {turn.pid}')}"
        where = devices[turn.device], track(turn.device, turn.pid, _TURNS)
        details = {"pid": turn.pid, "pieces": turn.pieces, "busy_ms": turn.busy_ns / 1e6}
        events.append(_slice(label, *where, turn.start_ns - origin, turn.end_ns - turn.start_ns, details))
    for span in spans:
        where = devices[span.device], track(span.device, span.pid, _WORK)
        events.append(
            _slice(span.label, *where, span.start_ns - origin, span.end_ns - span.start_ns, {"pid": span.pid})
        )
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _name(what: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": text}}


def _slice(
    label: str, process: int, thread: int, start_ns: int, length_ns: int, details: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": start_ns / 1000, "dur": length_ns / 1000}
    return {"ph": "X", "name": label, "pid": process, "tid": thread, **times, "args": details}

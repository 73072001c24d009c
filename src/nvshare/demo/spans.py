"""What ran when, and the turns that it adds up to. Pure: no clock, no process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work that a device executed; the times are on the device's clock."""

    device: str
    pid: int
    start_ns: int
    end_ns: int
    label: str


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything that a process executed on a device until another one executed something there."""

    device: str
    pid: int
    start_ns: int
    end_ns: int
    pieces: int
    busy_ns: int


def turns(spans: Iterable[Span]) -> list[Turn]:
    """The turns of every device, in the order of their start."""
    found: list[Turn] = []
    for device_spans in by_device(spans).values():
        current: Turn | None = None
        for span in device_spans:
            busy = span.end_ns - span.start_ns
            if current is not None and current.pid == span.pid:
                end = max(current.end_ns, span.end_ns)
                pieces, total = current.pieces + 1, current.busy_ns + busy
                current = Turn(span.device, span.pid, current.start_ns, end, pieces, total)
                continue
            if current is not None:
                found.append(current)
            current = Turn(span.device, span.pid, span.start_ns, span.end_ns, 1, busy)
        if current is not None:
            found.append(current)
    return sorted(found, key=lambda turn: (turn.start_ns, turn.device))


def overlaps(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Pairs of neighbours of different processes that a device executed at the same time; it should be empty."""
    found: list[tuple[Span, Span]] = []
    for device_spans in by_device(spans).values():
        latest: dict[int, Span] = {}
        for span in device_spans:
            found += [
                (other, span) for pid, other in latest.items() if pid != span.pid and other.end_ns > span.start_ns
            ]
            if span.pid not in latest or latest[span.pid].end_ns < span.end_ns:
                latest[span.pid] = span
    return found


def by_device(spans: Iterable[Span]) -> dict[str, Sequence[Span]]:
    """The spans of each device, in the order of their start."""
    devices: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        devices[span.device].append(span)
    return {device: sorted(found, key=lambda span: (span.start_ns, span.end_ns)) for device, found in devices.items()}

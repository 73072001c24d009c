"""What a device executed, the turns that it adds up to, and whether two processes were on it at once. Pure.

The times may be of a simulated device's record or of a real device's clock: the rules are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What a device did."""

    KERNEL = 1
    COPY = 2
    MEMSET = 3
    MEMOP = 4
    PREFETCH = 5


@dataclass(frozen=True, slots=True)
class Span:
    """One operation that a device executed."""

    pid: int
    """The process's pid in its own pid namespace."""
    kind: Kind
    name: str
    start_ns: int
    """In nanoseconds: CLOCK_MONOTONIC on a simulated device, the device's own clock on a real one."""
    end_ns: int
    client: int
    """What tells the process from all others: a number that no other process of these spans has or had."""
    bytes: int = 0
    """That a copy moved."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything that a process executed on a device until another process executed something there."""

    pid: int
    client: int
    start_ns: int
    end_ns: int
    """The latest end of its operations, not the start of the next turn."""
    pieces: int
    """How many operations it executed."""
    busy_ns: int
    """The sum of their times."""


def turns(spans: Iterable[Span]) -> list[Turn]:
    """The turns of one device, in the order of their start."""
    found: list[Turn] = []
    for span in _in_order(spans):
        busy_ns = span.end_ns - span.start_ns
        if found and found[-1].client == span.client:
            last = found[-1]
            end_ns = max(last.end_ns, span.end_ns)
            found[-1] = Turn(last.pid, last.client, last.start_ns, end_ns, last.pieces + 1, last.busy_ns + busy_ns)
        else:
            found.append(Turn(span.pid, span.client, span.start_ns, span.end_ns, 1, busy_ns))
    return found


def overlaps(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Pairs of spans of different processes that were on one device at the same time.

    For each span that began beside another process's one pair is there; not every pair of overlapping spans is listed.
    Spans that only touch do not overlap.
    """
    found = []
    latest: dict[int, Span] = {}
    for span in _in_order(spans):
        others = [other for client, other in latest.items() if client != span.client and other.end_ns > span.start_ns]
        if others:
            found.append((max(others, key=lambda other: other.end_ns), span))
        own = latest.get(span.client)
        if own is None or own.end_ns < span.end_ns:
            latest[span.client] = span
    return found


def _in_order(spans: Iterable[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.start_ns, span.end_ns))

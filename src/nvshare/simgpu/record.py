"""Reads the records of simulated devices: which process executed what on them, from when to when.

The layout is that of ``csrc/shared/record.h``.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

_HEADER = struct.Struct("<QQQ")
_ENTRIES_OFFSET = 4096
_ENTRY = struct.Struct("<QQQQII24s")
_MAGIC = 0x3144524F434552


class Kind(IntEnum):
    """What a device did."""

    KERNEL = 1
    COPY = 2
    MEMSET = 3
    MEMOP = 4
    PREFETCH = 5


@dataclass(frozen=True, slots=True)
class Span:
    """One operation that a device executed.

    Times are CLOCK_MONOTONIC in nanoseconds. ``pid`` is the process's pid in its own pid namespace; ``client`` is a
    number that no other process of the simulated devices has or had.
    """

    pid: int
    kind: Kind
    name: str
    start_ns: int
    end_ns: int
    client: int


def record_path(state_dir: Path, index: int) -> Path:
    """The file of device ``index``."""
    return state_dir / f"record-{index}"


def read(state_dir: Path, index: int) -> list[Span]:
    """What device ``index`` has executed, in the order of completion.

    The newest million or so operations are kept. A device that nobody initialized has executed nothing. Raises
    ``ValueError`` for a file that is not a record.
    """
    path = record_path(state_dir, index)
    if not path.exists():
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        magic, capacity, following = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError(f"{path} is not the record of a device")
        numbers = range(max(0, following - capacity), following)
        spans = (_span(data, number, capacity) for number in numbers)
        return [span for span in spans if span is not None]


def _span(data: mmap.mmap, number: int, capacity: int) -> Span | None:
    """One entry; None while it is being written, or when the ring has come round meanwhile."""
    offset = _ENTRIES_OFFSET + number % capacity * _ENTRY.size
    sequence, client, start_ns, end_ns, pid, kind, name = _ENTRY.unpack_from(data, offset)
    if sequence != number + 1:
        return None
    return Span(pid, Kind(kind), name.rstrip(b"\0").decode(errors="replace"), start_ns, end_ns, client)


def overlaps(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Pairs of spans of different processes that were on the device at the same time.

    For each span that began beside another process's one pair is there; not every pair of overlapping spans is listed.
    Spans that only touch do not overlap.
    """
    return [pair for pair in _neighbours(spans) if pair[1].start_ns < pair[0].end_ns]


def _neighbours(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Each span with the latest-ending earlier span of another process."""
    pairs = []
    latest: dict[int, Span] = {}
    for span in sorted(spans, key=lambda span: (span.start_ns, span.end_ns)):
        others = [other for client, other in latest.items() if client != span.client]
        if others:
            pairs.append((max(others, key=lambda other: other.end_ns), span))
        own = latest.get(span.client)
        if own is None or own.end_ns < span.end_ns:
            latest[span.client] = span
    return pairs


def turns(spans: Iterable[Span]) -> list[tuple[int, int, int]]:
    """The turns that processes took: ``(client, start_ns, end_ns)`` of each run of spans of one process, in order."""
    ordered = sorted(spans, key=lambda span: span.start_ns)
    starts = [0, *(i for i, (before, after) in enumerate(pairwise(ordered), 1) if before.client != after.client)]
    bounds = pairwise([*starts, len(ordered)]) if ordered else ()
    runs = (ordered[first:last] for first, last in bounds)
    return [(run[0].client, run[0].start_ns, max(span.end_ns for span in run)) for run in runs]

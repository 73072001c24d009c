"""Swapped memory in the record of a device: what moved when, and whether the device worked meanwhile. Pure.

The record does not say who wanted a copy. Swapping moves whole granules, so a copy over the bus of such a size counts
as swapping. This holds for programs whose own copies are smaller than a granule, or no multiple of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from nvshare.simgpu.turns import Kind, Span

GRANULE_BYTES: Final = 2 << 20
"""The least that swaps."""
TO_HOST: Final = "copy to host"
TO_DEVICE: Final = "copy to device"
"""How the record calls a copy over the bus."""

OWN_KERNELS: Final = ("nvs_hash_contents", "nvs_clear_contents")
"""What nvshare executes for memory that moves."""

_PAUSE_NS = 50_000_000
"""Copies this far apart are two transfers."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Memory of one process that moved in one direction without a pause."""

    pid: int
    client: int
    out: bool
    """To the host; else to the device."""
    start_ns: int
    end_ns: int
    bytes: int
    hidden_bytes: int
    """What of it moved while another process's work was executed on the device."""


def swaps(span: Span) -> bool:
    """Whether this is memory that is swapped, and no work of the program."""
    over_bus = span.kind is Kind.COPY and span.name in (TO_HOST, TO_DEVICE)
    return over_bus and span.bytes > 0 and span.bytes % GRANULE_BYTES == 0


def work(spans: Iterable[Span]) -> list[Span]:
    """What the programs did on the device."""
    return [span for span in spans if not (swaps(span) or span.name in OWN_KERNELS)]


def transfers(spans: Sequence[Span]) -> list[Transfer]:
    """What moved on one device, in the order of its start."""
    clients = {span.client for span in spans}
    others = {
        client: _union((span.start_ns, span.end_ns) for span in work(spans) if span.client != client)
        for client in clients
    }
    found = []
    for client, out in sorted((client, out) for client in clients for out in (False, True)):
        pieces = [span for span in spans if swaps(span) and (span.client, span.name == TO_HOST) == (client, out)]
        for run in _runs(sorted(pieces, key=lambda piece: piece.start_ns)):
            hidden = sum(
                piece.bytes
                * _overlap(piece.start_ns, piece.end_ns, others[client])
                / max(piece.end_ns - piece.start_ns, 1)
                for piece in run
            )
            end_ns = max(piece.end_ns for piece in run)
            total = sum(piece.bytes for piece in run)
            found.append(Transfer(run[0].pid, client, out, run[0].start_ns, end_ns, total, round(hidden)))
    return sorted(found, key=lambda transfer: (transfer.start_ns, transfer.client, transfer.out))


def stalled_ns(spans: Sequence[Span]) -> int:
    """For how long the device did nothing but move memory."""
    working = _union((span.start_ns, span.end_ns) for span in work(spans))
    moving = _union((span.start_ns, span.end_ns) for span in spans if swaps(span))
    return sum(end - start for start, end in moving) - sum(_overlap(start, end, working) for start, end in moving)


def _runs(pieces: Iterable[Span]) -> Iterator[list[Span]]:
    run: list[Span] = []
    for piece in pieces:
        if run and piece.start_ns > max(each.end_ns for each in run[-2:]) + _PAUSE_NS:
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time as intervals that do not touch, in order."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _overlap(start: int, end: int, intervals: list[tuple[int, int]]) -> int:
    """How much of the time from ``start`` to ``end`` the intervals take, which are in order and do not touch."""
    total = 0
    for low, high in islice(intervals, max(bisect_right(intervals, (start, start)) - 1, 0), None):
        if low >= end:
            break
        total += max(0, min(end, high) - max(start, low))
    return total

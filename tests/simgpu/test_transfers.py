"""Which copies swap, what they add up to, and how much of them is hidden."""

from __future__ import annotations

from nvshare.simgpu.transfers import GRANULE_BYTES, TO_DEVICE, TO_HOST, Transfer, stalled_ns, swaps, transfers, work
from nvshare.simgpu.turns import Kind, Span

MS = 1_000_000


def kernel(client: int, start: int, end: int) -> Span:
    """In milliseconds."""
    return Span(client, Kind.KERNEL, "kernel", start * MS, end * MS, client)


def copy(client: int, start: int, end: int, name: str, granules: int = 10) -> Span:
    """In milliseconds."""
    return Span(client, Kind.COPY, name, start * MS, end * MS, client, granules * GRANULE_BYTES)


def test_what_swaps() -> None:
    """Whole granules over the bus; a program's own small copies, and those within the device, are its work."""
    own = Span(1, Kind.COPY, TO_HOST, 0, 1, 1, 16384)
    inside = copy(1, 0, 1, "copy")
    out = copy(1, 0, 1, TO_HOST)
    assert [swaps(span) for span in (own, inside, out, kernel(1, 0, 1))] == [False, False, True, False]
    assert work([own, inside, out]) == [own, inside]


def test_pieces_are_one_transfer() -> None:
    """Copies of one process in one direction, one after the other; a pause or the other direction is another one."""
    spans = [
        copy(1, 0, 10, TO_HOST),
        copy(1, 12, 20, TO_HOST),
        copy(2, 5, 15, TO_DEVICE),
        copy(1, 200, 210, TO_HOST),
        copy(1, 211, 220, TO_DEVICE),
    ]
    bytes_of = 10 * GRANULE_BYTES
    assert transfers(spans) == [
        Transfer(1, 1, True, 0, 20 * MS, 2 * bytes_of, 0),
        Transfer(2, 2, False, 5 * MS, 15 * MS, bytes_of, 0),
        Transfer(1, 1, True, 200 * MS, 210 * MS, bytes_of, 0),
        Transfer(1, 1, False, 211 * MS, 220 * MS, bytes_of, 0),
    ]


def test_hidden_beside_the_work_of_another() -> None:
    """Its share of the time is its share of the bytes; the process's own work hides nothing."""
    spans = [
        copy(1, 0, 10, TO_DEVICE),
        kernel(2, 5, 7),
        kernel(2, 7, 20),
        copy(1, 10, 20, TO_DEVICE),
        kernel(1, 0, 5),
    ]
    [found] = transfers(spans)
    assert found.hidden_bytes == 15 * GRANULE_BYTES


def test_stalled() -> None:
    """The time in which memory moved and nobody computed, counted once however many moved."""
    spans = [copy(1, 0, 10, TO_HOST), copy(2, 5, 15, TO_DEVICE), kernel(2, 14, 30), kernel(1, -5, 2)]
    assert stalled_ns(spans) == 12 * MS
    assert stalled_ns([kernel(1, 0, 5)]) == 0

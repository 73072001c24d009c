"""Reading what devices executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.simgpu.record import Kind, Span, overlaps, read, record_path, turns


def span(client: int, start: int, end: int) -> Span:
    """A kernel of a process."""
    return Span(client, Kind.KERNEL, "kernel", start, end, client)


def test_spans_of_one_process_may_overlap() -> None:
    """Streams of one process run beside each other; that is no overlap of processes."""
    assert overlaps([span(1, 0, 10), span(1, 5, 15)]) == []


def test_touching_is_not_overlapping() -> None:
    """One process may begin when another has ended."""
    assert overlaps([span(1, 0, 10), span(2, 10, 20)]) == []


def test_overlaps_are_found_behind_short_spans() -> None:
    """A long span is not forgotten because a shorter one of the same process came after it."""
    long, short, other = span(1, 0, 100), span(1, 10, 20), span(2, 50, 60)
    assert overlaps([other, short, long]) == [(long, other)]


def test_turns() -> None:
    """Spans of one process in a row are one turn, which ends with the last of them."""
    spans = [span(1, 0, 10), span(1, 11, 30), span(1, 12, 15), span(2, 40, 50), span(1, 60, 70)]
    assert turns(spans) == [(1, 0, 30), (2, 40, 50), (1, 60, 70)]
    assert turns([]) == []


def test_something_else_is_not_a_record(tmp_path: Path) -> None:
    """A file that no device wrote is refused by name."""
    record_path(tmp_path, 0).write_bytes(b"x" * 8192)
    with pytest.raises(ValueError, match="record-0 is not"):
        read(tmp_path, 0)

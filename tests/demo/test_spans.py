"""Turns and overlaps from a record of what ran."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nvshare.demo.spans import Span, Turn, overlaps, turns


def span(pid: int, start: int, end: int, device: str = "GPU-1") -> Span:
    """A kernel."""
    return Span(device, pid, start, end, "kernel")


def test_turns_are_runs_of_one_process() -> None:
    """A turn ends where another process begins, however long the pause before it."""
    record = [span(7, 0, 10), span(7, 500, 510), span(8, 510, 520), span(7, 530, 540)]
    assert turns(record) == [
        Turn("GPU-1", 7, 0, 510, 2, 20),
        Turn("GPU-1", 8, 510, 520, 1, 10),
        Turn("GPU-1", 7, 530, 540, 1, 10),
    ]
    assert overlaps(record) == []


def test_devices_are_apart() -> None:
    """What runs on one device at the time of something on another is no overlap and ends no turn."""
    record = [span(7, 0, 10), span(8, 5, 15, "GPU-2"), span(7, 10, 20)]
    assert [(turn.pid, turn.device, turn.pieces) for turn in turns(record)] == [(7, "GPU-1", 2), (8, "GPU-2", 1)]
    assert overlaps(record) == []


def test_overlap_behind_others() -> None:
    """A long piece of work overlaps also with what does not directly follow it; its own process is no other."""
    long, own, other = span(7, 0, 100), span(7, 10, 20), span(8, 99, 120)
    assert overlaps([other, own, long]) == [(long, other)]


def test_touching_is_no_overlap() -> None:
    """One may begin in the nanosecond in which the other ends."""
    assert overlaps([span(7, 0, 10), span(8, 10, 20)]) == []


spans = st.builds(
    lambda pid, start, length, device: span(pid, start, start + length, device),
    st.integers(1, 3),
    st.integers(0, 60),
    st.integers(1, 9),
    st.sampled_from(["GPU-1", "GPU-2"]),
)


@given(st.lists(spans, max_size=12))
def test_overlaps_are_found(record: list[Span]) -> None:
    """There is an overlap if and only if a pair of the record overlaps, looked at one by one."""
    pairs = (
        (a, b)
        for a in record
        for b in record
        if a.device == b.device and a.pid != b.pid and a.start_ns < b.end_ns and b.start_ns < a.end_ns
    )
    assert bool(overlaps(record)) == any(True for _ in pairs)


@given(st.lists(spans, max_size=12))
def test_turns_keep_everything(record: list[Span]) -> None:
    """Every piece of work is in one turn, and neighbouring turns on a device are of different processes."""
    found = turns(record)
    assert sum(turn.pieces for turn in found) == len(record)
    assert sum(turn.busy_ns for turn in found) == sum(each.end_ns - each.start_ns for each in record)
    for device in ("GPU-1", "GPU-2"):
        pids = [turn.pid for turn in found if turn.device == device]
        assert all(a != b for a, b in itertools.pairwise(pids))

"""The turns that a record adds up to, and whether two processes overlapped."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nvshare.simgpu.turns import Kind, Span, Turn, overlaps, turns


def span(client: int, start: int, end: int) -> Span:
    """A kernel of a process."""
    return Span(client, Kind.KERNEL, "kernel", start, end, client)


def test_turns_are_runs_of_one_process() -> None:
    """A turn ends where another process begins, however long the pause before it."""
    record = [span(7, 0, 10), span(7, 500, 510), span(8, 510, 520), span(7, 530, 540)]
    assert turns(record) == [
        Turn(7, 7, 0, 510, pieces=2, busy_ns=20),
        Turn(8, 8, 510, 520, pieces=1, busy_ns=10),
        Turn(7, 7, 530, 540, pieces=1, busy_ns=10),
    ]
    assert overlaps(record) == []


def test_a_turn_ends_with_its_latest_operation() -> None:
    """Not with the one that began last; and nothing has no turns."""
    record = [span(1, 0, 10), span(1, 11, 30), span(1, 12, 15), span(2, 40, 50), span(1, 60, 70)]
    assert [(turn.client, turn.start_ns, turn.end_ns) for turn in turns(record)] == [
        (1, 0, 30),
        (2, 40, 50),
        (1, 60, 70),
    ]
    assert turns([]) == []


def test_operations_of_one_process_may_overlap() -> None:
    """Streams of one process run beside each other; that is no overlap of processes."""
    assert overlaps([span(1, 0, 10), span(1, 5, 15)]) == []


def test_overlap_behind_others() -> None:
    """A long piece of work overlaps also with what does not directly follow it; its own process is no other."""
    long, own, other = span(7, 0, 100), span(7, 10, 20), span(8, 99, 120)
    assert overlaps([other, own, long]) == [(long, other)]


def test_touching_is_no_overlap() -> None:
    """One may begin in the nanosecond in which the other ends."""
    assert overlaps([span(7, 0, 10), span(8, 10, 20)]) == []


spans = st.builds(
    lambda client, start, length: span(client, start, start + length),
    st.integers(1, 3),
    st.integers(0, 60),
    st.integers(1, 9),
)


@given(st.lists(spans, max_size=12))
def test_overlaps_are_found(record: list[Span]) -> None:
    """There is an overlap if and only if a pair of the record overlaps, looked at one by one."""
    pairs = (
        (a, b)
        for a in record
        for b in record
        if a.client != b.client and a.start_ns < b.end_ns and b.start_ns < a.end_ns
    )
    assert bool(overlaps(record)) == any(True for _ in pairs)


@given(st.lists(spans, max_size=12))
def test_turns_keep_everything(record: list[Span]) -> None:
    """Every piece of work is in one turn, and neighbouring turns are of different processes."""
    found = turns(record)
    assert sum(turn.pieces for turn in found) == len(record)
    assert sum(turn.busy_ns for turn in found) == sum(each.end_ns - each.start_ns for each in record)
    assert all(before.client != after.client for before, after in itertools.pairwise(found))

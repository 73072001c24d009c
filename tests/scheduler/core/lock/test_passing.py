"""Waiters that pass others because that delays nobody."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.core_fairness import GIB, QUANTUM, Program, Simulation
from nvshare.scheduler.core.events import Policy
from tests.scheduler.core.transcript import replay


def test_a_small_client_passes_a_large_one_that_it_does_not_delay() -> None:
    """C fits beside A now and beside B then, so B comes in when it would have come without C."""
    replay(
        """
        0    device 16
        0    A comes 10
        0    B comes 12
        0    C comes 1
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks            -> grant C
        30   timer             -> revoke A
        31   A releases        -> grant B
        """,
        Policy.AUTO,
    )


def test_a_client_that_would_be_in_the_way_then_does_not_pass() -> None:
    """C fits beside A, not beside B: it waits its turn."""
    replay(
        """
        0    device 16
        0    A comes 10
        0    B comes 12
        0    C comes 5
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        30   timer             -> revoke A
        31   A releases        -> grant B, waiters B 1
        """,
        Policy.AUTO,
    )


def test_those_in_between_are_not_delayed_either() -> None:
    """C comes in together with B, and D fits beside both; then E would take C's place."""
    replay(
        """
        0    device 16
        0    A comes 10
        0    B comes 8
        0    C comes 7
        0    D comes 1
        0    E comes 1
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        3    D asks            -> grant D
        4    E asks
        30   timer             -> revoke A
        31   A releases        -> grant B, grant C, waiters D 1
        """,
        Policy.AUTO,
    )


def test_a_small_client_passes_large_ones_that_take_turns() -> None:
    """B, C and D can only run one after the other, and E fits beside each."""
    replay(
        """
        0    device 16
        0    A comes 12
        0    B comes 12
        0    C comes 13
        0    D comes 12
        0    E comes 1
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        3    D asks
        4    E asks            -> grant E
        30   timer             -> revoke A
        31   A releases        -> grant B, waiters B 2
        """,
        Policy.AUTO,
    )


def test_nobody_passes_one_that_would_come_in_when_another_leaves() -> None:
    """C comes in at 50 s, when R has left; beside D it would have to wait for D's quantum too."""
    replay(
        """
        0    device 16
        0    A comes 8
        0    R comes 4
        0    B comes 8
        0    C comes 8
        0    D comes 2
        0    A asks            -> grant A
        20   R asks            -> grant R
        21   B asks            -> waiters A 1
        22   C asks
        25   D asks
        30   timer             -> revoke A
        30   A releases        -> grant B, waiters R 2
        """,
        Policy.AUTO,
    )


def test_nobody_passes_one_that_would_pass_soon() -> None:
    """When B comes in, D passes C; E would be too much beside C and D."""
    replay(
        """
        0    device 16
        0    A comes 14
        0    B comes 10
        0    C comes 12
        0    D comes 3
        0    E comes 2
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        3    D asks
        4    E asks
        30   timer             -> revoke A
        31   A releases        -> grant B, grant D, waiters B 2
        """,
        Policy.AUTO,
    )


def test_nobody_passes_a_client_that_must_be_alone() -> None:
    """Of unknown footprint, or larger than the device."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes ?
        0    C comes 20
        0    D comes 1
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        3    D asks
        4    B goes
        """,
        Policy.AUTO,
    )


def test_no_one_passes_under_exclusive() -> None:
    """There memory does not count."""
    replay("""
        0    device 16
        0    A comes 10
        0    B comes 12
        0    C comes 0
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
    """)


NEVER = 1e9
SIZES = st.sampled_from((0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 16, 20))


@pytest.mark.parametrize("others", range(1, 8))
@settings(max_examples=100)
@given(data=st.data())
def test_whoever_comes_last_delays_nobody(others: int, data: st.DataObject) -> None:
    """In virtual time: those before it get their first grant when they would have got it without it, all obeying."""
    sizes = data.draw(st.lists(SIZES, min_size=others, max_size=others))
    starts = data.draw(st.lists(st.sampled_from((0.0, 1.0, 7.0, 29.0)), min_size=others, max_size=others).map(sorted))
    last = data.draw(SIZES)
    programs = [Program(size * GIB, start_seconds=start) for size, start in zip(sizes, starts, strict=True)]
    asking, idle = (Program(last * GIB, start_seconds=start) for start in (starts[-1], NEVER))
    assert first_grants([*programs, asking])[:-1] == first_grants([*programs, idle])[:-1]


def test_one_that_would_pass_itself_is_not_delayed() -> None:
    """The seventh comes in beside the fourth, before the two between: it does not wait for the one before it."""
    programs = [Program(size * GIB) for size in (0, 4, 8, 6, 6, 8, 4)]
    asking, idle = (Program(2 * GIB, start_seconds=start) for start in (0.0, NEVER))
    assert first_grants([*programs, asking])[:-1] == first_grants([*programs, idle])[:-1]


def first_grants(programs: list[Program]) -> list[float | None]:
    """When each program was granted the lock for the first time."""
    simulation = Simulation(programs, Policy.AUTO)
    simulation.run((len(programs) + 2) * (QUANTUM + 1.0))
    return [simulation.first_grants.get(client) for client in range(len(programs))]

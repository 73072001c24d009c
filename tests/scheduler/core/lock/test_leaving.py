"""Who must leave for a waiter: no more holders than must, none before its quantum, and none later than that."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.lock.leaving import fewest
from tests.scheduler.core.transcript import replay


def test_only_the_large_holder_leaves() -> None:
    """A has held longest, but its leaving would not be enough, and without B there is room for both."""
    replay(
        """
        0    device 80 foreign 1
        0    A comes 5
        0    B comes 45
        0    C comes 35
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> waiters B 1
        31   timer             -> revoke B
        32   B releases        -> grant C
        """,
        Policy.AUTO,
    )


def test_the_waiter_comes_in_no_later_for_that() -> None:
    """A and B together make room at 32 s; that C alone would do so at 50 s does not count."""
    replay(
        """
        0    device 16
        0    A comes 3
        0    B comes 3
        0    C comes 6
        0    D comes 10
        0    A asks            -> grant A
        2    B asks            -> grant B
        20   C asks            -> grant C
        25   D asks            -> waiters A 1, waiters B 1
        32   timer             -> revoke A, revoke B
        """,
        Policy.AUTO,
    )


def test_of_several_choices_the_longest_holders_leave() -> None:
    """E must leave, and one more: A frees enough and has held longer than B and C, which free more."""
    replay(
        """
        0    device 32
        0    A comes 4
        0    B comes 5
        0    C comes 6
        0    E comes 12
        0    W comes 21
        1    A asks            -> grant A
        2    B asks            -> grant B
        3    C asks            -> grant C
        4    E asks            -> grant E
        5    W asks            -> waiters A 1, waiters E 1
        34   timer             -> revoke A, revoke E
        35   A releases
        36   E releases        -> grant W
        """,
        Policy.AUTO,
    )


def test_holders_of_nearly_equal_size_take_turns() -> None:
    """The larger one has no disadvantage: whoever has held longest leaves."""
    replay(
        """
        0    device 16
        0    A comes 6
        0    B comes 6.1
        0    C comes 6.2
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> waiters A 1
        30   timer             -> revoke A
        30   A releases        -> grant C
        30   A asks            -> waiters B 1
        31   timer             -> revoke B
        31   B releases        -> grant A
        31   B asks            -> waiters C 1
        60   timer             -> revoke C
        """,
        Policy.AUTO,
    )


def test_a_native_holder_is_left_alone() -> None:
    """Its leaving would free nothing, however long it has held."""
    replay(
        """
        0    device 16
        0    N comes 4 native
        0    A comes 8
        0    B comes 8
        0    N asks            -> grant N
        1    A asks            -> grant A
        2    B asks            -> waiters A 1
        31   timer             -> revoke A
        32   A releases        -> grant B
        """,
        Policy.AUTO,
    )


@given(st.lists(st.integers(0, 6), max_size=7), st.integers(0, 30))
def test_fewest_is_the_first_of_the_smallest_choices(sizes: list[int], lacking: int) -> None:
    """Against all choices, the smallest first and those with the longest holders first."""
    choices = (choice for count in range(len(sizes) + 1) for choice in combinations(range(len(sizes)), count))
    enough = (choice for choice in choices if sum(sizes[place] for place in choice) >= lacking)
    assert fewest(sizes, lacking) == list(next(enough, range(len(sizes))))

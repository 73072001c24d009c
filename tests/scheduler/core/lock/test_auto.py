"""Clients that fit together hold together; others take turns."""

from __future__ import annotations

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import ASSUMED_PINNED_BYTES
from tests.scheduler.core.transcript import GIB, replay


def test_clients_that_fit_hold_together_and_nobody_is_asked_to_stop() -> None:
    """No revoke, no word about waiters, no timer."""
    core = replay(
        """
        0    device 16
        0    A comes 8
        0    B comes 8
        0    A asks            -> grant A
        1    B asks            -> grant B
        9000 A releases
        9001 A asks            -> grant A
        """,
        Policy.AUTO,
    )
    assert core.deadline() is None


def test_clients_that_do_not_fit_take_turns() -> None:
    """One byte too many makes the difference."""
    replay(
        """
        0    device 16
        0    A comes 8
        0    B comes 8.001
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        30   timer             -> revoke A
        31   A releases        -> grant B
        31   A asks            -> waiters B 1
        61   timer             -> revoke B
        """,
        Policy.AUTO,
    )


def test_memory_of_others_is_not_there() -> None:
    """What processes that are no clients use can't be granted; when it is free again, the waiter comes in."""
    replay(
        """
        0    device 16 foreign 1
        0    A comes 8
        0    B comes 8
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    device 16         -> grant B, waiters A 0
        """,
        Policy.AUTO,
    )


def test_a_context_is_charged_before_it_is_measured_and_while_its_client_idles() -> None:
    """What can't be swapped stays on the device whoever holds: C's context blocks B although C does nothing."""
    assumed = ASSUMED_PINNED_BYTES / GIB
    replay(
        f"""
        0    device 16
        0    A comes 7
        0    B comes {16 - 7 - 2 * assumed}
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    B releases
        3    C comes 0
        4    B asks            -> waiters A 1
        5    C pins 0.5
        6    B pins 0.5
        7    A pins 0.5
        8    C goes            -> grant B, waiters A 0
        """,
        Policy.AUTO,
        assumed_pinned_bytes=ASSUMED_PINNED_BYTES,
    )


def test_a_client_of_unknown_footprint_holds_alone() -> None:
    """A version 1 client reports nothing, so it is not known to fit beside anybody, nor anybody beside it."""
    replay(
        """
        0    device 16
        0    A comes ?
        0    B comes 1
        0    C comes ?
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    A releases        -> grant B
        3    C asks            -> waiters B 1
        4    C has 2           -> grant C, waiters B 0
        """,
        Policy.AUTO,
    )


def test_on_a_device_of_unknown_size_clients_take_turns() -> None:
    """Memory that is not known to be there is not granted."""
    replay(
        """
        0    device 0
        0    A comes 1
        0    B comes 1
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    device 16         -> grant B, waiters A 0
        """,
        Policy.AUTO,
    )


def test_a_client_larger_than_the_device_is_admitted_alone() -> None:
    """It can run only by paging, but run it may; nobody comes in beside it."""
    replay(
        """
        0    device 16
        0    A comes 20
        0    B comes 1
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        30   timer             -> revoke A
        31   A releases        -> grant B
        31   A asks            -> waiters B 1
        32   B releases        -> grant A
        """,
        Policy.AUTO,
    )


def test_only_as_many_leave_as_must_the_longest_holders_first() -> None:
    """D needs the room of A and B; C may stay. Both go when the later of them has had its quantum."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 4
        0    D comes 10
        0    A asks            -> grant A
        10   B asks            -> grant B
        20   C asks            -> grant C
        25   D asks            -> waiters A 1, waiters B 1
        40   timer             -> revoke A, revoke B
        41   B releases
        42   A releases        -> grant D
        """,
        Policy.AUTO,
    )


def test_a_holder_that_no_longer_blocks_is_told_so() -> None:
    """A frees memory: B may stay. When A has grown again, B must leave after all."""
    replay(
        """
        0    device 16
        0    A comes 6
        0    B comes 6
        0    C comes 2
        0    D comes 8
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> grant C
        3    D asks            -> waiters A 1
        4    C has 4           -> waiters B 1
        5    C has 2           -> waiters B 0
        30   timer             -> revoke A
        31   A releases        -> grant D
        """,
        Policy.AUTO,
    )


def test_small_clients_do_not_overtake_a_large_one() -> None:
    """C would fit beside A, but it would keep B waiting; so it waits behind B."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes 16
        0    C comes 4
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        30   timer             -> revoke A
        31   A releases        -> grant B, waiters B 1
        31   A asks
        61   timer             -> revoke B
        62   B releases        -> grant C, grant A
        """,
        Policy.AUTO,
    )


def test_the_most_recent_holder_leaves_when_holders_outgrow_the_device() -> None:
    """The one revoke without a waiter. The holder that stays keeps its turn from its own grant on."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 4
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> grant C
        5    A has 8
        6    A has 9           -> revoke C
        7    A has 12
        8    A has 13          -> revoke B
        9    C releases
        9    C asks            -> waiters A 1
        10   B releases
        10   B asks
        30   timer             -> revoke A
        31   A releases        -> grant C, grant B
        """,
        Policy.AUTO,
    )


def test_outgrowing_takes_the_most_recent_holder_even_while_older_ones_block() -> None:
    """D waits for A alone; B's growth still ends C's turn, because that began last."""
    replay(
        """
        0    device 16
        0    A comes 6
        0    B comes 4
        0    C comes 4
        0    D comes 7
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> grant C
        3    D asks            -> waiters A 1
        4    B has 7           -> revoke C
        5    C releases
        5    C asks
        30   timer             -> revoke A
        31   A releases        -> grant D, revoke B
        """,
        Policy.AUTO,
    )


def test_a_quantum_and_grace_times_run_out_each_at_its_time() -> None:
    """B was asked to leave early and does not; A's quantum ends before B's grace time."""
    replay(
        """
        0    device 16
        0    quantum 5
        0    A comes 6
        0    B comes 5
        0    C comes 11
        0    A asks            -> grant A
        2    B asks            -> grant B
        2    C asks            -> waiters A 1
        3    B has 11          -> revoke B
        5    timer             -> revoke A
        13   timer             -> unresponsive B 10
        15   timer             -> unresponsive A 10
        16   A releases
        17   B releases        -> grant C
        """,
        Policy.AUTO,
    )


def test_a_measured_context_is_free_when_its_client_is_gone() -> None:
    """What B had is there for A's and C's growth."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 4
        0    B pins 2
        0    A asks            -> grant A
        1    C asks            -> grant C
        2    B goes
        3    A has 12
        4    A has 13          -> revoke C
        """,
        Policy.AUTO,
    )


def test_the_order_of_the_grants_survives_blocking_for_a_while() -> None:
    """A and B blocked and no longer do; when one has to leave again, it is A, the older one."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 4
        0    D comes 12
        0    E comes 8
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> grant C
        3    D asks            -> waiters A 1, waiters B 1
        4    D goes            -> waiters B 0, waiters A 0
        5    E asks            -> waiters A 1
        """,
        Policy.AUTO,
    )


def test_a_lone_holder_may_outgrow_the_device() -> None:
    """Nothing would be gained by stopping it."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    A asks            -> grant A
        6    A has 40
        """,
        Policy.AUTO,
    )


def test_measured_contexts_can_outgrow_the_device_assumed_ones_cannot() -> None:
    """Three more clients come and are assumed to need contexts: nobody is revoked until that is known."""
    replay(
        """
        0    device 16
        0    A comes 7
        0    B comes 7
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C comes 0
        3    A pins 0.75
        4    B pins 0.75
        5    C pins 0.8        -> revoke B
        """,
        Policy.AUTO,
        assumed_pinned_bytes=ASSUMED_PINNED_BYTES,
    )


def test_a_leaving_holder_still_counts() -> None:
    """Memory is free when its holder has left, not when it was asked to."""
    replay(
        """
        0    device 16
        0    A comes 10
        0    B comes 10
        0    C comes 7
        0    A asks            -> grant A
        0    B asks            -> waiters A 1
        0    C asks
        30   timer             -> revoke A
        31   B goes
        32   A releases        -> grant C
        """,
        Policy.AUTO,
    )

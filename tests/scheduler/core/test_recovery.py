"""The scheduler died and is back: nothing runs beside the holders of the one before, and nobody lies about that."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Policy
from tests.scheduler.core.transcript import DEVICE, replay


def test_nothing_is_granted_before_a_recorded_holder_is_back() -> None:
    """However long that takes; then its turn goes on and ends as every other."""
    core = replay(
        """
        0    device 16
        0    recorded 7
        0.1  B comes 12 waiting
        3600 A comes 12 holding 7 was 7 -> waiters A 1
        3630 timer                      -> revoke A
        3631 A releases                 -> grant B
        """
    )
    assert core.deadline() is None


def test_a_recorded_holder_that_is_dead_is_not_waited_for() -> None:
    """The waiters' order is that of their return."""
    core = replay(
        """
        0    device 16
        0    recorded 7
        0.1  B comes 12 waiting
        0.2  A comes 12
        0.3  A asks
        9    died 7              -> grant B, waiters B 1
        """
    )
    assert not core.snapshot(9.0)[0].recovering


@pytest.mark.parametrize("policy", Policy)
def test_every_recorded_holder_is_waited_for_under_every_policy(policy: Policy) -> None:
    """The record says what ran, not what may run."""
    core = replay(
        """
        0    device 16
        0    recorded 7
        0    recorded 9
        0    B comes 1
        0    B asks
        1    died 9
        """,
        policy,
    )
    assert core.snapshot(1.0)[0].recovering
    assert core.deadline() is None


def test_a_recorded_holder_may_come_back_without_the_lock() -> None:
    """Its LOCK_RELEASED met nobody; what it says now is the truth."""
    replay(
        """
        0    device 16
        0    recorded 7
        0    B comes 12 waiting
        1    A comes 12 waiting was 7 -> grant B, waiters B 1
        """
    )


def test_a_recorded_holder_that_drains_leaves_as_if_it_had_been_asked() -> None:
    """It needs no second DROP_LOCK, nobody runs beside it, and what it gives back is taken."""
    replay(
        """
        0    device 16
        0    recorded 7
        0    B comes 12 waiting
        1    A comes 12 draining 7 was 7
        8    A releases               -> grant B
        8    A asks                   -> waiters B 1
        """
    )


def test_a_drain_that_takes_too_long_is_said_here_too() -> None:
    """The grace time runs from its return."""
    replay(
        """
        0    device 16
        0    recorded 7
        0    B comes 12 waiting
        1    A comes 12 draining 7 was 7
        11   timer                    -> unresponsive A 10
        """
    )


def test_under_auto_two_recorded_holders_go_on_together() -> None:
    """They held together before, and a waiter that fits beside them is granted when both are back."""
    replay(
        """
        0    device 16
        0    recorded 7
        0    recorded 9
        0.1  A comes 6 holding 7 was 7
        0.1  C comes 1 waiting
        0.2  B comes 6 holding 9 was 9 -> grant C
        """,
        Policy.AUTO,
    )


def test_another_device_does_not_wait() -> None:
    """Only the device whose holder is missing does."""
    replay(
        """
        0    device 16
        0    A comes 12 waiting  -> grant A
        """
    )


def test_who_runs_without_a_scheduler_leaves_first() -> None:
    """A client may run without any grant when it found no scheduler; nobody is granted beside it."""
    replay("""
        0    device 16
        0    A comes 12 holding 0 -> revoke A
        1    B comes 12 waiting
        3    A releases 0        -> grant B
        3    A asks              -> waiters B 1
    """)


def test_a_false_claim_stops_no_holder_and_passes_no_waiter() -> None:
    """Who claims what no record says is asked to leave at once, and asks like everybody after that."""
    replay("""
        0    device 16
        0    A comes 12 waiting   -> grant A
        0    B comes 12 waiting   -> waiters A 1
        1    C comes 12 holding 1 -> revoke C
        2    C releases
        2    C asks
        30   timer                -> revoke A
        31   A releases           -> grant B, waiters B 1
    """)


def test_a_grant_of_another_is_no_proof() -> None:
    """The recorded holder of grant 7 claims 9, or somebody else claims 7: both must leave."""
    replay("""
        0    device 16
        0    recorded 7
        0    A comes 12 holding 9 was 7 -> revoke A
        0    B comes 12 holding 7       -> revoke B
    """)


def test_a_second_false_claim_of_a_process_blocks_nobody() -> None:
    """A process that came back again and again would keep the device from others without ever having waited."""
    replay("""
        0    device 16
        0    B comes 12 waiting   -> grant B
        0    A comes 12 holding 5 doubted -> revoke A
        1    B goes
        2    C comes 12 waiting   -> grant C
        3    A releases 5
        3    A asks               -> waiters C 1
        3    D comes 12 draining 5 doubted
        4    D releases 5
        4    D releases 5         -> illegal: D is idle
    """)


def test_a_claimed_number_has_no_effect_on_others() -> None:
    """2**63 - 1 once made every later grant of an honest holder look false."""
    core = replay("""
        0    device 16
        0    A comes 1 holding 9223372036854775807 -> revoke A
        1    A releases 9223372036854775807
        1    B comes 1 waiting    -> grant B
        2    B releases 1
    """)
    assert core.snapshot(2.0)[0].device == DEVICE


def test_new_grants_are_higher_than_those_that_are_recorded() -> None:
    """So that a grant never means two turns."""
    replay("""
        0    device 16
        0    recorded 41
        0    A comes 12 holding 41 was 41
        1    A releases 41
        1    A asks              -> grant A
        2    A releases 42
        3    A asks              -> grant A
        4    A releases 42       -> illegal: A holds grant 43
    """)


def test_the_turn_of_a_lost_holder_goes_on() -> None:
    """Its quantum ends when it would have, however often its connection is lost."""
    replay(
        """
        0    device 16
        0    A comes 12
        0    B comes 12
        0    A asks                   -> grant A
        1    B asks                   -> waiters A 1
        10   recorded 1              -> waiters A 0
        10   A goes
        11   C comes 12 holding 1 was 1 -> waiters C 1
        20   recorded 1              -> waiters C 0
        20   C goes
        21   D comes 12 holding 1 was 1 -> waiters D 1
        30   timer                    -> revoke D
        31   D releases               -> grant B
        """
    )


def test_the_grace_of_a_lost_holder_goes_on() -> None:
    """It was asked to leave, and comes back as if it had not been: it is asked again, and overdue as it would be."""
    replay(
        """
        0    device 16
        0    A comes 12
        0    B comes 12
        0    A asks                   -> grant A
        1    B asks                   -> waiters A 1
        30   timer                    -> revoke A
        32   recorded 1
        32   A goes
        33   C comes 12 holding 1 was 1 -> revoke C
        35   recorded 1
        35   C goes
        36   D comes 12 draining 1 was 1
        40   timer                    -> unresponsive D 10
        41   recorded 1
        41   D goes
        42   E comes 12 holding 1 was 1 -> revoke E, unresponsive E 12
        50   E releases               -> grant B
        """
    )


def test_the_grace_of_a_lost_holder_does_not_pass_while_nobody_waits() -> None:
    """The waiter left: who came back is not overdue when another one waits, much later."""
    replay(
        """
        0    device 16
        0    A comes 12
        0    B comes 12
        0    A asks                   -> grant A
        1    B asks                   -> waiters A 1
        30   timer                    -> revoke A
        32   recorded 1
        32   A goes
        33   B goes
        34   C comes 12 holding 1 was 1
        99   D comes 12
        100  D asks                   -> revoke C
        106  timer                    -> unresponsive C 10
        """
    )

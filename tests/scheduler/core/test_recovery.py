"""The scheduler died and is back: clients return with the state that they are in."""

from __future__ import annotations

from nvshare.scheduler.core.events import Policy
from tests.scheduler.core.transcript import replay


def test_nothing_is_granted_before_the_clients_had_time_to_come_back() -> None:
    """The first one to ask might be granted while the old holder has not yet reconnected."""
    core = replay(
        """
        0    device 16
        0.1  B comes 12 waiting
        0.5  A comes 12 holding 7
        2    timer               -> waiters A 1
        30.5 timer               -> revoke A
        31   A releases          -> grant B
        """,
        recovering=True,
    )
    assert core.deadline() is None


def test_without_an_old_holder_the_first_waiter_is_granted_when_the_time_is_over() -> None:
    """The waiters' order is that of their return."""
    core = replay(
        """
        0    device 16
        0.1  B comes 12 waiting
        0.2  A comes 12
        0.3  A asks
        2    timer               -> grant B, waiters B 1
        """,
        recovering=True,
    )
    assert not core.snapshot(2.0)[0].recovering


def test_an_event_after_the_time_is_over_need_not_wait_for_the_timer() -> None:
    """The timer may come late; an event at that time sees the recovery ended."""
    replay(
        """
        0    device 16
        0.1  B comes 12 waiting
        2    A comes 12          -> grant B
        2    timer
        """,
        recovering=True,
    )


def test_no_device_grants_while_recovering_not_even_under_off() -> None:
    """One rule for all policies; the time is short."""
    core = replay(
        """
        0    device 16
        0    A comes 1
        0    A asks
        """,
        Policy.OFF,
        recovering=True,
    )
    assert core.snapshot(1.9)[0].recovering
    assert core.deadline() == 2.0


def test_of_two_that_come_back_holding_the_later_one_must_leave_at_once() -> None:
    """Both may have the lock from different schedulers; nobody is granted before the second has gone."""
    replay(
        """
        0    device 16
        0.1  A comes 12 holding 7
        0.2  B comes 12 holding 9 -> revoke B
        0.3  C comes 12 waiting
        2    timer               -> waiters A 1
        3    A releases
        4    B releases          -> grant C
        """,
        recovering=True,
    )


def test_under_auto_two_that_come_back_holding_may_fit() -> None:
    """Then both are right; a third one that does not fit is asked to leave."""
    replay(
        """
        0    device 16
        0.1  A comes 6 holding 7
        0.2  B comes 6 holding 9
        0.3  C comes 6 holding 9 -> revoke C
        2    timer
        3    C releases
        """,
        Policy.AUTO,
        recovering=True,
    )


def test_a_client_that_comes_back_holding_after_the_next_grant_is_revoked() -> None:
    """It was cut off for longer than the recovery; now two hold, as long as it takes to stop the later comer."""
    replay(
        """
        0    device 16
        0.1  A comes 12 waiting
        2    timer               -> grant A
        3    B comes 12 holding 7 -> revoke B
        13   timer               -> unresponsive B 10
        14   B releases
        15   B asks              -> waiters A 1
        """,
        recovering=True,
    )


def test_a_client_may_hold_without_any_grant() -> None:
    """It ran without a scheduler; grant 0 is what it gives back."""
    replay("""
        0    device 16
        0    A comes 12 holding 0
        1    B comes 12 waiting  -> waiters A 1
        30   timer               -> revoke A
        31   A releases 0        -> grant B
    """)


def test_new_grants_are_higher_than_those_that_came_back() -> None:
    """So that a grant never means two turns."""
    replay("""
        0    device 16
        0    A comes 12 holding 41
        1    A releases 41
        1    A asks              -> grant A
        2    A releases 42
        3    A asks              -> grant A
        4    A releases 42       -> illegal: A holds grant 43
    """)

"""One holder at a time: turns, quanta, and what happens when messages cross."""

from __future__ import annotations

from tests.scheduler.core.transcript import replay


def test_a_lone_client_is_never_asked_to_stop() -> None:
    """Nobody waits, so the quantum means nothing and no timer is set."""
    core = replay("""
        0    device 16
        0    A comes 12
        1    A asks             -> grant A
        5000 A has 13
    """)
    assert core.deadline() is None


def test_turns_are_first_come_first_served() -> None:
    """Three clients go round in the order of their requests, a quantum each."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   C comes 12
        1   A asks             -> grant A
        2   C asks             -> waiters A 1
        3   B asks
        31  timer              -> revoke A
        32  A releases         -> grant C, waiters C 1
        32  A asks
        62  timer              -> revoke C
        62  C releases         -> grant B, waiters B 1
        62  C asks
        92  timer              -> revoke B
        92  B releases         -> grant A, waiters A 1
    """)


def test_the_quantum_is_counted_from_the_grant() -> None:
    """Somebody who comes after the holder's quantum need not wait for another one."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   A asks             -> grant A
        100 B asks             -> revoke A
        101 A releases         -> grant B
    """)


def test_clients_that_would_fit_together_still_take_turns() -> None:
    """Under exclusive, memory does not count."""
    replay("""
        0   device 16
        0   A comes 1
        0   B comes 1
        0   A asks             -> grant A
        0   B asks             -> waiters A 1
    """)


def test_an_idle_holder_gives_way_before_its_quantum_ends() -> None:
    """A release that nobody asked for is answered with the next grant, and the timer of the turn is forgotten."""
    core = replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   A asks             -> grant A
        1   B asks             -> waiters A 1
        2   A releases         -> grant B
    """)
    assert core.deadline() is None


def test_the_waiters_are_taken_back_when_the_last_one_goes() -> None:
    """The holder is told when somebody begins to wait and when nobody waits any more, not in between."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   C comes 12
        0   A asks             -> grant A
        1   B asks             -> waiters A 1
        2   C asks
        3   B goes
        4   C goes             -> waiters A 0
        5   A releases
    """)


def test_a_release_that_crosses_the_revoke_needs_nothing_more() -> None:
    """The client gave way of its own accord while DROP_LOCK was on its way; it need not answer that."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   A asks             -> grant A
        1   B asks             -> waiters A 1
        30  timer              -> revoke A
        30  A releases         -> grant B
        30  A asks             -> waiters B 1
    """)


def test_a_crossed_revoke_may_be_answered_once() -> None:
    """A client that answers every DROP_LOCK answers the crossed one too: once, in whatever state it is by then."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   A asks             -> grant A
        1   B asks             -> waiters A 1
        30  timer              -> revoke A
        30  A releases 1       -> grant B
        30  A asks             -> waiters B 1
        31  B releases         -> grant A
        32  A releases 1
        32  A releases 1       -> illegal: A holds grant 3
        33  A releases 3
        33  A releases 3       -> illegal: A is idle
    """)


def test_a_holder_that_does_not_answer_is_reported_once_and_may_still_answer() -> None:
    """No grant is made while it may still run; when it comes round at last, the turns go on."""
    core = replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   A asks             -> grant A
        1   B asks             -> waiters A 1
        30  timer              -> revoke A
        40  timer              -> unresponsive A 10
        99  B has 11
        100 A releases         -> grant B
        100 A asks             -> waiters B 1
    """)
    assert core.deadline() == 130


def test_the_revoke_is_sent_once_a_grant_however_late_the_timer() -> None:
    """A timer that comes late does what is due at that time and nothing twice."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   C comes 12
        0   A asks             -> grant A
        1   B asks             -> waiters A 1
        35  late timer         -> revoke A
        36  C asks
        50  late timer         -> unresponsive A 15
        51  A goes             -> grant B, waiters B 1
    """)


def test_a_holder_that_disappears_frees_the_lock_in_every_state() -> None:
    """kill -9 of a holder, of one that was asked to leave, and of an unresponsive one."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   C comes 12
        0   D comes 12
        0   A asks             -> grant A
        0   B asks             -> waiters A 1
        0   C asks
        0   D asks
        5   A goes             -> grant B, waiters B 2
        35  timer              -> revoke B
        36  B goes             -> grant C, waiters C 1
        66  timer              -> revoke C
        76  timer              -> unresponsive C 10
        77  C goes             -> grant D
        78  D goes
    """)


def test_a_waiter_that_disappears_is_skipped() -> None:
    """The lock goes to the next one that is still there."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   C comes 12
        0   A asks             -> grant A
        0   B asks             -> waiters A 1
        0   C asks
        5   B goes
        30  timer              -> revoke A
        30  A releases         -> grant C
    """)


def test_a_waiter_that_disappears_after_the_revoke_leaves_the_lock_free() -> None:
    """The revoke is on its way and is answered; nobody is there to be granted, and the former holder may ask again."""
    replay("""
        0   device 16
        0   A comes 12
        0   B comes 12
        0   A asks             -> grant A
        0   B asks             -> waiters A 1
        30  timer              -> revoke A
        30  B goes
        31  A releases
        31  A asks             -> grant A
    """)


def test_illegal_events_say_what_the_state_is_and_change_nothing() -> None:
    """Every event that a state does not allow, and the turn goes on as if it had not been."""
    replay("""
        0   A comes 12         -> illegal: device GPU-a is unknown
        0   device 16
        0   A asks             -> illegal: A is unknown
        0   A goes             -> illegal: A is unknown
        0   A has 1            -> illegal: A is unknown
        0   A pins 1           -> illegal: A is unknown
        0   A releases 1       -> illegal: A is unknown
        0   A comes 12
        0   A comes 12         -> illegal: A is already registered
        0   A releases 1       -> illegal: A is idle
        0   B comes 12
        1   A asks             -> grant A
        1   A asks             -> illegal: A is holding
        1   A releases 2       -> illegal: A holds grant 1
        2   B asks             -> waiters A 1
        2   B asks             -> illegal: B is waiting
        2   B releases 1       -> illegal: B is waiting
        3   quantum 0          -> illegal: a quantum is a positive number of seconds
        3   quantum -1         -> illegal: a quantum is a positive number of seconds
        3   quantum inf        -> illegal: a quantum is a positive number of seconds
        3   quantum nan        -> illegal: a quantum is a positive number of seconds
        31  timer              -> revoke A
        31  A asks             -> illegal: A is leaving
        41  timer              -> unresponsive A 10
        41  A asks             -> illegal: A is unresponsive
        41  A releases 2       -> illegal: A holds grant 1
        41  A releases 1       -> grant B
    """)

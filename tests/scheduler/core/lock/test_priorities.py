"""Priority classes, and the floor of the lower ones."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.lock.floor import Floor
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.terms import Priority, Terms
from tests.scheduler.core.transcript import number, replay
from tests.scheduler.core.workloads import Program, Workload

LOW, HIGH = Terms(priority=Priority.LOW), Terms(priority=Priority.HIGH)


def test_a_higher_class_preempts_and_the_rest_of_the_quantum_comes_later() -> None:
    """A had 10 of 30 s when B came; it goes on before C, which came after it, and has its 20 s."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    B is high
        0    A asks            -> grant A
        5    C asks            -> waiters A 1
        10   B asks            -> revoke A
        10   A releases        -> grant B, waiters B 1
        10   A asks
        12   B releases        -> grant A, waiters A 1
        32   timer             -> revoke A
        32   A releases        -> grant C
        """
    )


def test_who_comes_back_late_has_lost_its_place() -> None:
    """A was preempted and asked again only two seconds later: C, which waited all the time, is before it."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    B is high
        0    A asks            -> grant A
        5    C asks            -> waiters A 1
        10   B asks            -> revoke A
        10   A releases        -> grant B, waiters B 1
        12   A asks
        13   B releases        -> grant C, waiters C 1
        """
    )


def test_only_those_leave_at_once_who_must() -> None:
    """D needs one of three out: the low one, though it came last; nobody else is told."""
    replay(
        """
        0    device 16
        0    A comes 5
        0    B comes 5
        0    C comes 5
        0    D comes 4
        0    C is low
        0    D is high
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> grant C
        3    D asks            -> revoke C
        4    C releases        -> grant D
        """,
        Policy.AUTO,
    )


def test_a_lower_class_does_not_end_the_turn_of_a_higher_one() -> None:
    """Without a floor the low one waits until the high one is idle; it is told of that one, to give way then."""
    core = replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A is high
        0    B is low
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        """,
        floor=0.0,
    )
    assert core.deadline() is None
    assert core.snapshot(40.0)[0].quantum_left_seconds is None


def test_the_lower_classes_are_owed_a_slice() -> None:
    """5 %: after 20 s in which B waited it has 1 s, A comes back at once and has what was left of its turn."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A is high
        0    A asks            -> grant A
        10   B asks            -> waiters A 1
        30   timer             -> revoke A
        30   A releases        -> grant B
        30   A asks            -> waiters B 1
        31   timer             -> revoke B
        31   B releases        -> grant A
        31   B asks            -> waiters A 1
        50   timer             -> revoke A
        """
    )


def test_the_lower_classes_are_owed_a_slice_of_who_came_in_just_now() -> None:
    """B comes in when A leaves, and nothing happens afterwards: C does not wait for some other event."""
    replay(
        """
        0    device 16
        0    A comes 9
        0    B comes 9
        0    C comes 9
        0    C is low
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        12   A releases        -> grant B, waiters B 1
        22   timer             -> revoke B
        """
    )


def test_those_of_a_lower_class_have_slices_in_turns() -> None:
    """None waits until another one has had a whole quantum of them."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    A is high
        0    A asks            -> grant A
        0    B asks            -> waiters A 1
        0    C asks
        20   timer             -> revoke A
        20   A releases        -> grant B, waiters B 1
        20   A asks
        21   timer             -> revoke B
        21   B releases        -> grant A, waiters A 1
        21   B asks
        40   timer             -> revoke A
        40   A releases        -> grant C, waiters C 1
        """
    )


def test_a_slice_is_not_preempted() -> None:
    """C is high as well and comes during B's slice."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    A is high
        0    C is high
        0    A asks            -> grant A
        0    B asks            -> waiters A 1
        20   timer             -> revoke A
        20   A releases        -> grant B
        20.5 C asks            -> waiters B 1
        21   timer             -> revoke B
        21   B releases        -> grant C
        """
    )


def test_what_is_not_used_of_a_slice_is_still_owed() -> None:
    """B gives way after 0.5 s, so half a slice is owed when it waits again, and what came on top meanwhile."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A is high
        0    A asks            -> grant A
        0    B asks            -> waiters A 1
        20   timer             -> revoke A
        20   A releases        -> grant B
        20   A asks            -> waiters B 1
        20.5 B releases        -> grant A
        20.5 B asks            -> waiters A 1
        30   timer             -> revoke A
        """
    )


def test_no_class_is_passed_again_and_again() -> None:
    """A and B fit together, and B's class owes D as much as A's owes both. After D's slice, C has one, wholly."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 2
        0    C comes 16
        0    D comes 16
        0    A is high
        0    D is low
        0    A asks            -> grant A
        0    B asks            -> grant B
        0    C asks            -> waiters B 1, waiters A 1
        0    D asks
        20   timer             -> revoke B, revoke A
        20   A releases
        20   B releases        -> grant D, waiters D 1
        20   A asks
        20   B asks
        21   timer             -> revoke D
        21   D releases        -> grant A, grant B, waiters B 1, waiters A 1
        21   D asks
        40   timer             -> revoke A, revoke B
        40   B releases
        40   A releases        -> grant C, waiters C 1
        40   A asks
        40   B asks
        41   timer             -> revoke C
        """,
        Policy.AUTO,
    )


def test_classes_that_change_take_effect_at_once() -> None:
    """B becomes high while it waits, and A while it holds."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    B is high         -> revoke A
        3    A releases        -> grant B
        3    A asks            -> waiters B 1
        4    A is high
        33   timer             -> revoke B
        """
    )


def test_the_place_in_the_line_is_by_class() -> None:
    """C came after B and is before it."""
    core = replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    C is high
        0    A is high
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        """
    )
    lines = [core.client(number(name), 3.0).line for name in "BC"]
    assert [line.position for line in lines if line] == [2, 1]


@pytest.mark.parametrize(("share", "seconds"), [(0.05, 2000.0), (0.2, 500.0), (0.5, 200.0)])
@pytest.mark.parametrize("quantum_seconds", [0.5, 30.0])
def test_the_floor_is_what_the_lower_class_gets(share: float, seconds: float, quantum_seconds: float) -> None:
    """Two of a high and two of a low class that always work."""
    programs = [Program(name) for name in ("h", "l") for _ in range(2)]
    workload = Workload(programs, {"h": HIGH, "l": LOW}, Settings(Policy.EXCLUSIVE, quantum_seconds, floor=share))
    workload.run(seconds)
    assert workload.held("l") / workload.now == pytest.approx(share, rel=0.06)


def test_the_lowest_class_has_its_floor_of_the_floor() -> None:
    """Three classes and a fifth: the low ones have a fifth of the fifth that they and the normal ones have."""
    programs = [Program(name) for name in ("h", "n", "l")]
    workload = Workload(programs, {"h": HIGH, "l": LOW}, Settings(Policy.EXCLUSIVE, floor=0.2))
    workload.run(2500.0)
    normal, low = workload.held("n"), workload.held("l")
    assert (normal + low) / workload.now == pytest.approx(0.2, rel=0.05)
    assert low / (normal + low) == pytest.approx(0.2, rel=0.1)


def test_slices_are_as_long_as_weights_say() -> None:
    """One of a low class has four times the weight of another."""
    programs = [Program(name) for name in ("h", "x", "y")]
    terms = {"h": HIGH, "x": Terms(priority=Priority.LOW, weight=4.0), "y": LOW}
    workload = Workload(programs, terms, Settings(Policy.EXCLUSIVE, floor=0.2))
    workload.run(1000.0)
    heavy, light = workload.held("x"), workload.held("y")
    assert (heavy + light) / workload.now == pytest.approx(0.2, rel=0.06)
    assert heavy / light == pytest.approx(4.0, rel=0.1)


def test_without_a_floor_the_lower_classes_get_what_is_left() -> None:
    """The high one works half of the time: the low one has the rest and nothing else."""
    programs = [Program("h", 1.0, 1.0), Program("l")]
    workload = Workload(programs, {"h": HIGH, "l": LOW}, Settings(Policy.EXCLUSIVE, floor=0.0))
    workload.run(400.0)
    assert max(workload.programs[1].latencies) <= 1.0 + 0.01
    assert workload.programs[2].worked_seconds >= 0.95 * 200


def test_what_is_owed_is_not_lost_while_nobody_may_have_it() -> None:
    """A slice of 2 s is owed after 40 s, in which the one that waits is passed over at last."""
    floor, high = Floor(0.05), (Priority.NORMAL,)
    waiting = {Priority.LOW: 2.0}
    floor.pass_time(0.0, waiting, high, ())
    floor.pass_time(40.0, {}, high, ())
    floor.pass_time(41.0, waiting, high, ())
    assert floor.next(waiting, Priority.NORMAL) == (Priority.LOW, 41.0)

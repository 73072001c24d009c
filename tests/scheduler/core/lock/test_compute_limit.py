"""A container holds a device for no more than its part of the time, though nobody else wants it."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.lock.budget import Budget
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.transcript import number, replay
from tests.scheduler.core.workloads import GIB, Program, Workload


def test_a_limited_holder_leaves_though_nobody_waits() -> None:
    """Of 50 %: it has 0.1 s, which fill by half while it uses them; 0.2 s later they are there again."""
    core = replay(
        """
        0    device 16
        0    A comes 1
        0    A at most 50%
        0    A asks            -> grant A, waiters A 1
        0.2  timer             -> revoke A
        0.2  A releases
        0.2  A asks
        0.4  timer             -> grant A, waiters A 1
        """
    )
    assert core.client(number("A"), 0.4).line is None


def test_the_line_says_why_and_until_when() -> None:
    """Kept out by its limit for 0.15 s more."""
    core = replay(
        """
        0    device 16
        0    A comes 1
        0    A at most 50%
        0    A asks            -> grant A, waiters A 1
        0.2  timer             -> revoke A
        0.2  A releases
        0.2  A asks
        """
    )
    line = core.client(number("A"), 0.25).line
    assert line is not None
    assert line.limit_seconds == pytest.approx(0.15)
    assert core.deadline() == pytest.approx(0.4)


def test_who_waits_for_its_limit_keeps_nobody_out() -> None:
    """B comes in while A waits for time; A does not make B leave before it may hold."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A at most 50%
        0    A asks            -> grant A, waiters A 1
        0.2  timer             -> revoke A
        0.2  A releases
        0.2  A asks
        0.3  B asks            -> grant B
        0.4  timer             -> waiters B 1
        2    B releases        -> grant A, waiters A 1
        """
    )


def test_a_cut_turn_goes_on() -> None:
    """A's limit cut its turn twice; B waited all the time, and its turn comes when A's 30 s are over."""
    core = replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A at most 50%
        0    A asks            -> grant A, waiters A 1
        0.2  timer             -> revoke A
        0.2  A releases
        0.2  A asks
        0.3  B asks            -> grant B
        0.4  timer             -> waiters B 1
        30.3 timer             -> revoke B
        30.3 B releases        -> grant A, waiters A 1
        30.3 B asks
        """
    )
    assert core.snapshot(30.3)[0].quantum_left_seconds == pytest.approx(29.8)


def test_a_limit_that_comes_goes_or_changes_takes_effect_at_once() -> None:
    """A holder is told of its limit, and that it has none any more."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    A asks            -> grant A
        5    A at most 50%     -> waiters A 1
        5.1  A without limit   -> waiters A 0
        9    A at most 60%     -> waiters A 1
        9.3  timer             -> revoke A
        9.3  A releases
        9.3  A asks
        9.4  A without limit   -> grant A
        """
    )


def test_under_off_nothing_is_limited() -> None:
    """The budget does not count while the policy is off, and is full afterwards."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    A at most 50%
        0    A asks            -> grant A
        9    policy auto       -> waiters A 1
        9.2  timer             -> revoke A
        """,
        Policy.OFF,
    )


def test_a_container_uses_its_budget_once() -> None:
    """A and B of one container hold together: that counts once, and both leave."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A is in box
        0    B is in box
        0    A at most 50%
        0    A asks            -> grant A, waiters A 1
        0.1  B asks            -> grant B, waiters B 1
        0.2  timer             -> revoke A, revoke B
        0.2  A releases
        0.25 B releases
        0.25 A asks
        0.25 B asks
        0.5  timer             -> grant A, grant B, waiters A 1, waiters B 1
        """,
        Policy.AUTO,
    )


def most_in_a_window(workload: Workload, container: str, seconds: float) -> float:
    """The most that a container held in any window that begins or ends with a turn."""
    turns = [turn for each in workload.programs.values() if each.container == container for turn in each.turns]
    starts = [moment for began, ended in turns for moment in (began, ended - seconds) if moment >= 0]
    return max(workload.held(container, start, start + seconds) for start in starts)


@pytest.mark.parametrize("limit", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("beside", [False, True])
def test_a_limit_holds_over_ten_seconds(limit: float, beside: bool) -> None:
    """Within 2 % of it or 50 ms, and a drain, in every window; and it gets its part, alone and beside a busy one."""
    programs = [Program("A", drain_seconds=0.01)] + [Program("B", footprint_bytes=1 * GIB)] * beside
    workload = Workload(programs, {"A": Terms(compute_limit=limit)}, Settings(Policy.AUTO))
    workload.run(100.0)
    assert most_in_a_window(workload, "A", 10.0) <= 10.0 * limit + max(0.02 * 10.0 * limit, 0.05) + 0.01 + 1e-6
    assert workload.held("A", 10.0) / 90.0 == pytest.approx(limit, abs=0.02)


def test_idle_time_does_not_use_the_budget() -> None:
    """It works 50 ms in 250, 20 %: it gives way in between, and hardly ever waits for its 35 %."""
    program = Program("A", 0.05, 0.2)
    workload = Workload([program], {"A": Terms(compute_limit=0.35)}, Settings(Policy.AUTO))
    workload.run(60.0)
    assert sorted(program.latencies)[len(program.latencies) // 2] <= 0.06
    assert len(program.latencies) >= 0.9 * 60 / 0.25


def test_limited_clients_leave_the_rest_to_others() -> None:
    """Two of 30 % and one without a limit, which do not fit together: 30, 30 and 40 %."""
    terms = {"A": Terms(compute_limit=0.3), "B": Terms(compute_limit=0.3)}
    programs = [Program(name, drain_seconds=0.001) for name in ("A", "B", "C")]
    workload = Workload(programs, terms, Settings(Policy.AUTO, 0.05))
    workload.run(100.0)
    shares = [workload.held(name) / 100.0 for name in "ABC"]
    assert max(shares[:2]) <= 0.32
    assert shares[2] >= 0.38
    assert sum(shares) == pytest.approx(1.0, abs=0.01)


def test_a_budget_that_was_full_is_enough() -> None:
    """Emptied at 2 s, and full again at 4 s: what it holds from then on does not keep anybody out, however much."""
    budget = Budget(limit=0.5, most=1.0, left=1.0, at=0.0)
    budget.use(True, 0.0)
    assert budget.is_used_up(2.0)
    budget.use(False, 2.0)
    assert budget.ready_at == 4.0
    budget.change(0.5, 2.0, 5.0)
    assert budget.ready_at <= 5.0


def test_what_comes_in_is_kept_though_what_a_turn_needs_comes_and_goes() -> None:
    """It seems to need much when its turn comes, and little when others come before: then it waits for that much."""
    budget = Budget(limit=0.5, most=0.1, left=0.1, at=0.0)
    for second in range(1, 10):
        budget.change(0.5, 0.8, second - 0.1)
        budget.change(0.5, 0.1, float(second))
    assert budget.left == 0.8
    assert budget.ready_at <= 9.0
    budget.change(0.25, 0.2, 9.0)
    assert (budget.most, budget.left) == (0.2, 0.2)


def test_it_is_smaller_when_it_is_used() -> None:
    """What a turn needs is known then."""
    budget = Budget(limit=0.5, most=0.8, left=0.8, at=0.0)
    budget.use(True, 1.0)
    budget.change(0.5, 0.1, 1.0)
    assert (budget.most, budget.left) == (0.1, 0.1)

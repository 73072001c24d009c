"""Short work of who is idle most of the time is served at once, within its share."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.terms import Priority, Terms
from tests.scheduler.core.memory.swap_transcript import Table
from tests.scheduler.core.transcript import replay
from tests.scheduler.core.workloads import Program, Workload


def settings(quantum_seconds: float = 30.0) -> Settings:
    """As the scheduler's command line has them."""
    return Settings(Policy.AUTO, quantum_seconds, burst_seconds=1.0)


def test_a_burst_does_not_wait_for_the_quantum() -> None:
    """B was idle for 7.5 s, so A leaves at once; it has its other 22.5 s when B is done."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    A asks            -> grant A
        0    C asks            -> waiters A 1
        7.5  B asks            -> revoke A
        7.5  A releases        -> grant B, waiters B 1
        7.5  A asks
        8    B releases        -> grant A, waiters A 1
        30.5 timer             -> revoke A
        30.5 A releases        -> grant C
        """,
        burst_seconds=1.0,
    )


def test_a_burst_is_as_long_as_the_credit() -> None:
    """B saved 1 s and needs more: it leaves then, and waits for the rest of A's quantum as others do."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A asks            -> grant A
        7.5  B asks            -> revoke A
        7.5  A releases        -> grant B
        7.5  A asks            -> waiters B 1
        8.5  timer             -> revoke B
        8.5  B releases        -> grant A
        8.5  B asks            -> waiters A 1
        31   timer             -> revoke A
        31   A releases        -> grant B
        31   A asks            -> waiters B 1
        61   timer             -> revoke B
        """,
        burst_seconds=1.0,
    )


def test_who_has_no_credit_waits() -> None:
    """B came 0.1 s ago and has saved no more than 50 ms."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    A asks            -> grant A
        11.1 B comes 1
        11.2 B asks            -> waiters A 1
        30   timer             -> revoke A
        """,
        burst_seconds=1.0,
    )


def test_who_asks_again_at_once_was_not_idle() -> None:
    """B gives way after a moment and asks again: it waits its turn."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    B asks            -> grant B
        5    A asks            -> revoke B
        5    B releases        -> grant A
        9    A releases
        9    B asks            -> grant B
        9.5  B releases
        9.5  A asks            -> grant A
        9.51 B asks            -> waiters A 1
        """,
        burst_seconds=1.0,
    )


def test_a_burst_does_not_preempt_a_higher_class() -> None:
    """Nor another burst, and a lower class leaves at once anyhow."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A is high
        0    A asks            -> grant A
        10   B asks            -> waiters A 1
        """,
        burst_seconds=1.0,
        floor=0.0,
    )


def test_a_burst_ends_no_other_burst() -> None:
    """C comes during B's and is next, before A."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    A asks            -> grant A
        10   B asks            -> revoke A
        10   A releases        -> grant B
        10   A asks            -> waiters B 1
        10.5 C asks
        11   timer             -> revoke B
        11   B releases        -> grant C, waiters C 1
        12   timer             -> revoke C
        12   C releases        -> grant A
        """,
        burst_seconds=1.0,
    )


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def test_bursts_beside_a_program_that_always_works() -> None:
    """100 ms a second: 95 % of them take at most twice as long as alone, and the other has 0.85 of the rest."""
    burst, busy = Program("burst", 0.1, 0.9, starts=5.0), Program("busy", drain_seconds=0.03)
    workload = Workload([busy, burst], {}, settings())
    workload.run(200.0)
    assert len(burst.latencies) >= 170
    assert percentile(burst.latencies, 0.95) <= 0.2
    assert busy.worked_seconds >= 0.85 * (200.0 - burst.worked_seconds)


def test_bursts_beside_several_that_take_turns() -> None:
    """Four that always work, two with bursts: these are served at once, the four share the rest evenly."""
    bursts = [Program(f"burst {number}", 0.1, 0.9, starts=0.3 * number) for number in range(2)]
    busy = [Program(f"busy {number}") for number in range(4)]
    workload = Workload([*busy, *bursts], {}, settings(2.0))
    workload.run(300.0)
    for program in bursts:
        assert percentile(program.latencies[5:], 0.9) <= 0.3
    worked = [program.worked_seconds for program in busy]
    assert min(worked) >= 0.9 * max(worked)
    assert sum(worked) >= 0.85 * (300.0 - sum(program.worked_seconds for program in bursts))


@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize("pause", [0.02, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 7.0])
@pytest.mark.parametrize("work", [0.1, 0.3, 0.5, 0.9, 1.0, 1.5, 3.0, 31.0])
def test_nobody_gains_by_bursts(work: float, pause: float, weight: float) -> None:
    """Whatever long work and idleness alternate in: no more than the fair share beside one that always works."""
    adversary, busy = Program("adversary", work, pause), Program("busy")
    workload = Workload([busy, adversary], {"adversary": Terms(weight=weight)}, settings(5.0))
    workload.run(400.0)
    fair = weight / (weight + 1)
    assert workload.held("adversary") / 400.0 <= fair + 0.02


def test_nobody_gains_by_bursts_between_whole_turns() -> None:
    """It has a whole turn now and then, and bursts while the other has its own."""
    adversary, busy = Program("adversary", 30.0, 0.5), Program("busy")
    workload = Workload([busy, adversary], {}, settings())
    while workload.now < 1500.0:
        workload.run(workload.now + 0.2)
        adversary.work_seconds = 0.45 if len(adversary.latencies) % 30 else 30.0
    assert workload.held("adversary") / workload.now <= 0.52


def test_bursts_of_a_container_count_together() -> None:
    """Four processes of one container burst in turns: together they have no more than its share."""
    programs = [Program("many", 0.9, 0.1, starts=0.2 * number) for number in range(4)]
    workload = Workload([Program("busy"), *programs], {}, settings(5.0))
    workload.run(400.0)
    assert workload.held("many") / 400.0 <= 0.52


def test_bursts_are_within_a_class() -> None:
    """A high program works now and then, a normal one bursts, another always works: all get on."""
    high, burst, busy = Program("high", 2.0, 8.0), Program("burst", 0.1, 0.9), Program("busy")
    workload = Workload([high, burst, busy], {"high": Terms(priority=Priority.HIGH)}, settings())
    workload.run(200.0)
    assert percentile(high.latencies, 0.5) <= 2.01
    # Now and then the floor gives the others a slice.
    assert max(high.latencies) <= 2.2
    assert percentile(burst.latencies, 0.5) <= 0.15
    assert busy.worked_seconds >= 0.6 * 200


def test_a_burst_that_costs_more_than_it_gains_waits() -> None:
    """Five of B's ten GiB would have to move: 24 times 0.27 s is more than the 1 s that B has saved."""
    table = Table(Policy.EXCLUSIVE, burst_seconds=1.0)
    table.comes("A", 10)
    table.asks("A")
    table.comes("B", 10, 5)
    table.now = 10.0
    assert table.asks("B") == []
    assert table.core.deadline() is not None
    assert table.core.snapshot(10.0)[0].quantum_left_seconds == 20.0


def test_a_burst_lets_the_holder_run_while_its_memory_comes_in() -> None:
    """There is room for B beside A: A is asked to leave when B is in, or after a second."""
    table = Table(Policy.EXCLUSIVE, burst_seconds=1.0)
    table.comes("A", 7)
    table.asks("A")
    table.comes("B", 7, 0)
    table.now = 10.0
    assert table.asks("B") == ["allot B 7"]
    assert table.core.snapshot(10.0)[0].quantum_left_seconds == 1.0
    table.now = 10.2
    assert table.has("B", 7, 7) == ["revoke A"]

"""Whether programs that fit a GPU together do better together or in turns: found out, and followed, in virtual time."""

from __future__ import annotations

import itertools

import pytest

from nvshare.scheduler.core.events import Policy
from tests.scheduler.core.mix.mix_simulation import MixSimulation, Program, Rates

KINDS = ("mlp", "small", "matmul", "add", "bert", "conv", "graph")
TOGETHER = (
    (1.72, 1.94, 1.63, 1.58, 1.57, 1.55, 1.54),
    (1.40, 1.18, 1.13, 1.09, 1.09, 1.10),
    (0.92, 1.06, 0.95, 1.00, 1.00),
    (0.90, 0.99, 1.00, 0.99),
    (0.90, 0.92, 0.92),
    (0.91, 0.93),
    (0.93,),
)
"""What two of these kinds did at the same time on an H200, by what each did alone, added up."""
SUMS = {
    frozenset((first, second)): total
    for place, first in enumerate(KINDS)
    for second, total in zip(KINDS[place:], TOGETHER[place], strict=True)
}
QUEUES = {"mlp": 0.002, "small": 0.01}
"""Seconds of work that a kind has queued; else as much as pacing allows."""


def alike(total: float) -> Rates:
    """Whatever the kinds: together they do ``total`` times as much as one alone."""
    return lambda kinds: (1.0,) if len(kinds) == 1 else (total / len(kinds),) * len(kinds)


def pairs(kinds: tuple[str, ...]) -> tuple[float, ...]:
    """As measured on the H200; three at a time are as three that saturate it."""
    if len(kinds) == 1:
        return (1.0,)
    total = SUMS[frozenset(kinds)] if len(kinds) == 2 else 0.9
    return (total / len(kinds),) * len(kinds)


def add(simulation: MixSimulation, kind: str) -> Program:
    """A program of a kind starts."""
    return simulation.add(kind, queue_seconds=QUEUES.get(kind, 0.05))


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(KINDS, 2)))
def test_a_minute_of_each_pair(first: str, second: str) -> None:
    """Two programs get within 2 % of what the better of the two ways gives, the search for it included."""
    simulation = MixSimulation(pairs, seed=11)
    add(simulation, first)
    add(simulation, second)
    simulation.run(60)
    total = SUMS[frozenset((first, second))]
    assert simulation.normalized() / 60 >= 0.98 * max(1.0, total)
    if abs(total - 1) > 0.03:
        assert simulation.in_turns is (total < 1)
    assert len(simulation.changes) <= 2


@pytest.mark.parametrize("total", [0.92, 1.06, 1.94])
def test_ten_minutes(total: float) -> None:
    """All trials of ten minutes together cost less than 1 %, and what is decided stays."""
    simulation = MixSimulation(alike(total), seed=5)
    simulation.add("a")
    simulation.add("b")
    simulation.run(600)
    assert simulation.normalized() / 600 >= 0.99 * max(1.0, total)
    assert len(simulation.changes) <= 2


@pytest.mark.parametrize("total", [0.98, 0.99])
def test_what_hardly_matters_does_not_flap(total: float) -> None:
    """Where both ways are as good within the margin it is decided now and then, not again and again."""
    simulation = MixSimulation(alike(total), seed=3)
    simulation.add("a")
    simulation.add("b")
    simulation.run(600)
    assert len(simulation.changes) <= 4


@pytest.mark.parametrize("noise", [0.08, 0.12])
def test_rates_that_vary(noise: float) -> None:
    """Programs whose rates vary much from moment to moment are measured for longer, and as well."""
    for total in (0.92, 1.13):
        simulation = MixSimulation(alike(total), seed=4, noise=noise)
        simulation.add("a")
        simulation.add("b")
        simulation.run(60)
        assert simulation.in_turns is (total < 1)


@pytest.mark.parametrize("count", [3, 8])
@pytest.mark.parametrize("total", [0.9, 1.0, 1.2, 2.0])
def test_more_than_two(count: int, total: float) -> None:
    """One decision for all: it is right, and finding it costs less than 2 % of a minute."""
    simulation = MixSimulation(alike(total), seed=3)
    for _ in range(count):
        simulation.add("a")
    simulation.run(60)
    assert simulation.normalized() / 60 >= 0.98 * max(1.0, total)
    assert simulation.in_turns is (total < 1)


def test_each_gets_its_share() -> None:
    """Those that take turns because that is better get turns of a whole quantum, and as much of the GPU each."""
    simulation = MixSimulation(alike(0.9), quantum_seconds=5.0)
    programs = [simulation.add("a") for _ in range(3)]
    simulation.run(20)
    assert simulation.in_turns
    begun = [program.done for program in programs]
    simulation.run(30)
    shares = [(program.done - before) / program.rate for program, before in zip(programs, begun, strict=True)]
    assert all(9 <= share <= 11 for share in shares)
    ended = [end - begin for program in programs for begin, end in program.turns if begin > 20 and end < 49]
    assert all(5.0 <= seconds <= 5.2 for seconds in ended)


@pytest.mark.parametrize("rate", [20.0, 100.0, 5000.0])
def test_rates_that_never_settle(rate: float) -> None:
    """Rates that change again and again lead to trials that cost less than 1 % all the same, also long ones."""
    simulation = MixSimulation(alike(1.9))
    programs = [simulation.add("a", rate=rate) for _ in range(2)]
    while simulation.now < 600:
        simulation.run(7.0)
        for program in programs:
            program.rate = 1.6 * rate if program.rate == rate else rate
    changes = sorted(change for each in programs for begin, end in each.turns for change in ((begin, 1), (end, -1)))
    holding, alone, before = 0, 0.0, 0.0
    for moment, more in changes:
        alone += moment - before if holding == 1 else 0.0
        holding, before = holding + more, moment
    assert 0 < alone * (1 - 1 / 1.9) < 0.01 * 600


def test_a_third_one_comes() -> None:
    """Who comes to two that take turns runs at once beside them, and what is best for the three is found in seconds."""
    parts = {1: 1.0, 2: 0.45, 3: 0.5}
    simulation = MixSimulation(lambda kinds: (parts[len(kinds)],) * len(kinds))
    simulation.add("a")
    simulation.add("b")
    simulation.run(30)
    assert simulation.in_turns
    third = simulation.add("c")
    simulation.run(0.5)
    assert third.done > 0
    simulation.run(60)
    assert not simulation.in_turns
    simulation.end(third)
    simulation.run(10)
    assert simulation.in_turns, "the two are known"


def test_from_launch_bound_to_saturating() -> None:
    """A program that begins to fill the GPU is noticed by its rate, and the decision changes within seconds."""
    simulation = MixSimulation(lambda kinds: pairs(kinds), seed=2)
    program = add(simulation, "mlp")
    add(simulation, "bert")
    simulation.run(30)
    assert not simulation.in_turns
    program.kind, program.rate, program.queue_seconds = "bert", 300.0, 0.05
    simulation.run(20)
    assert simulation.in_turns


def test_from_saturating_to_launch_bound() -> None:
    """The same the other way, where only the holder of the moment shows how fast it is."""
    simulation = MixSimulation(lambda kinds: pairs(kinds), seed=2, quantum_seconds=10.0)
    program = add(simulation, "bert")
    add(simulation, "bert")
    simulation.run(30)
    assert simulation.in_turns
    program.kind, program.rate, program.queue_seconds = "mlp", 3000.0, 0.002
    simulation.run(30)
    assert not simulation.in_turns


def test_one_that_pauses_does_not_wait_for_turns() -> None:
    """A program with something to do now and then stays beside others: it would wait for a quantum each time."""
    simulation = MixSimulation(alike(0.9))
    simulation.add("a")
    simulation.add("b")
    seldom = simulation.add("c", pause=(0.3, 1.0))
    simulation.run(60)
    assert not simulation.in_turns
    waits = [later - earlier for (_, earlier), (later, _) in itertools.pairwise(seldom.turns)]
    assert max(waits) < 5.0


def test_a_pause_of_one_is_no_new_mix() -> None:
    """A program that evaluates for a while comes back to what is known of the two."""
    simulation = MixSimulation(alike(0.9))
    simulation.add("a")
    simulation.add("b", pause=(20.0, 6.0))
    simulation.run(19)
    assert simulation.in_turns
    changes = len(simulation.changes)
    simulation.run(60)
    assert simulation.in_turns
    assert len(simulation.changes) == changes


@pytest.mark.parametrize("policy", [Policy.EXCLUSIVE, Policy.OFF])
def test_only_auto_measures(policy: Policy) -> None:
    """Under the other policies nobody is asked for its progress."""
    simulation = MixSimulation(alike(0.9), policy=policy, quantum_seconds=2.0)
    programs = [simulation.add("a"), simulation.add("b")]
    simulation.run(10)
    assert all(program.watched == 0 for program in programs)
    assert simulation.core.snapshot(simulation.now)[0].mix is None


def test_what_is_clear_takes_no_more_turns() -> None:
    """Of eight that hardly disturb one another two tell enough; and the more there are the shorter are the turns."""
    simulation = MixSimulation(alike(6.0))
    programs = [simulation.add("a", rate=10000.0, queue_seconds=0.002) for _ in range(8)]
    simulation.run(10)
    alone = [end - begin for program in programs for begin, end in program.turns if end - begin < 1]
    assert 2 <= len(alone) <= 3
    assert max(alone) < 0.2


@pytest.mark.parametrize("total", [1.6, 2.0])
def test_what_is_clear_costs_little(total: float) -> None:
    """Two launch-bound programs lose less than half a percent of a minute by the search."""
    simulation = MixSimulation(alike(total), noise=0.0)
    for _ in range(2):
        simulation.add("a", rate=80000.0, queue_seconds=0.002)
    simulation.run(60)
    assert simulation.normalized() / total >= 60 * 0.997


@pytest.mark.parametrize("total", [0.85, 0.98, 1.1, 1.3])
def test_what_is_not_clear_takes_as_many_turns_as_ever(total: float) -> None:
    """The first short turns only tell what is clear: other decisions rest on whole turns alone."""
    simulation = MixSimulation(alike(total), noise=0.0)
    for _ in range(2):
        simulation.add("a", rate=80000.0, queue_seconds=0.002)
    simulation.run(20)
    ended = sorted(turn for program in simulation.programs for turn in program.turns if turn[0] > 1)
    lengths = [end - begin for begin, end in ended if end - begin < 0.4]
    assert max(lengths[:2]) < 0.15
    whole = [length for length in lengths[2:] if length > 0.2]
    assert len(whole) >= (2 if total == 1.3 else 6)


def test_what_is_queued_at_first_is_no_work() -> None:
    """Programs fill long queues when they get the GPU: what they do together is measured when these are full."""
    simulation = MixSimulation(alike(0.92), seed=2)
    simulation.add("a", queue_seconds=0.3)
    simulation.add("b", queue_seconds=0.3)
    simulation.run(30)
    shown = simulation.core.snapshot(simulation.now)[0].mix
    assert shown is not None
    assert shown.ratio == pytest.approx(0.92, abs=0.02)

"""A program that has something to do now and then, beside others that always have: how long what it does takes."""

from __future__ import annotations

import itertools
import random

import pytest

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.snapshot import MixSnapshot
from tests.scheduler.core.mix.mix_simulation import MixSimulation, Program, Rates

KNOWN = 30.0
"""Seconds after which it is known."""


def half(total: float) -> Rates:
    """Two do ``total`` times as much together as one alone."""
    return lambda kinds: (1.0,) if len(kinds) == 1 else (total / len(kinds),) * len(kinds)


def simulate(
    pause: tuple[float, float],
    *,
    total: float = 0.9,
    burst_seconds: float = 1.0,
    step_seconds: float = 0.002,
    policy: Policy = Policy.AUTO,
    queue_seconds: float = 0.04,
) -> tuple[MixSimulation, Program, Program]:
    """One that saturates the device, and one that pauses."""
    simulation = MixSimulation(
        half(total), quantum_seconds=10.0, burst_seconds=burst_seconds, step_seconds=step_seconds, policy=policy
    )
    busy = simulation.add("a", queue_seconds=queue_seconds)
    return simulation, busy, simulation.add_bursts("b", *pause)


def shown(simulation: MixSimulation) -> MixSnapshot:
    """What is known of the mix."""
    mix = simulation.core.snapshot(simulation.now)[0].mix
    assert mix is not None
    return mix


@pytest.mark.parametrize("pause", [(0.1, 0.9), (0.2, 0.8), (0.3, 1.2)])
def test_long_bursts_go_in_turns(pause: tuple[float, float]) -> None:
    """Where bursts take much longer beside the other one it gives way to each, and keeps nearly all the rest."""
    simulation, busy, seldom = simulate(pause)
    simulation.run(KNOWN)
    mix = shown(simulation)
    assert mix.turns
    assert mix.ratio is None
    assert mix.bursts is not None
    assert mix.bursts > 1.2
    done, begun = busy.done, simulation.now
    seldom.took.clear()
    simulation.run(20.0)
    took = sorted(seldom.took)
    assert took[int(0.95 * len(took))] < 2.0 * pause[0]
    left = 1 - len(took) * pause[0] / (simulation.now - begun)
    assert (busy.done - done) / busy.rate / (simulation.now - begun) > 0.85 * left


@pytest.mark.parametrize("pause", [(0.005, 0.045), (0.002, 0.098), (0.01, 0.19), (0.02, 0.5)])
def test_small_requests_stay_together(pause: tuple[float, float]) -> None:
    """Who needs the device for milliseconds does not wait for what others have queued."""
    simulation, _, seldom = simulate(pause, step_seconds=0.001)
    simulation.run(KNOWN)
    mix = shown(simulation)
    assert not mix.turns
    assert not mix.measuring
    assert (mix.ratio, mix.bursts) != (None, None)
    grants = len(seldom.turns)
    simulation.run(10.0)
    assert len(seldom.turns) == grants, "it is left alone"


def test_who_does_not_disturb_stays_together() -> None:
    """Bursts that take no longer beside the other one, which leaves gaps, are no reason for turns."""
    simulation, _, _ = simulate((0.1, 0.9), total=1.9)
    simulation.run(KNOWN)
    assert not shown(simulation).turns
    assert not shown(simulation).measuring


def test_the_other_one_keeps_most_of_the_rest() -> None:
    """Bursts so frequent that the hand-overs cost the other one much stay beside it, though they take longer there."""
    simulation, busy, _ = simulate((0.02, 0.09), queue_seconds=0.004)
    simulation.run(KNOWN)
    mix = shown(simulation)
    assert mix.bursts is not None
    assert mix.bursts > 1.2
    assert not mix.turns
    done = busy.done
    simulation.run(10.0)
    assert (busy.done - done) / busy.rate / 10.0 > 0.75


def test_what_is_about_as_good_stays() -> None:
    """Where bursts take little longer together it is not decided anew with each trial."""
    simulation, _, _ = simulate((0.1, 0.9), queue_seconds=0.05, step_seconds=0.005)
    simulation.run(300.0)
    assert len(simulation.changes) <= 2


def test_without_credit_for_bursts() -> None:
    """Where nobody is let in at once the one that pauses stays beside the others; finding that out takes a second."""
    simulation, _, seldom = simulate((0.1, 0.9), burst_seconds=0.0)
    simulation.run(KNOWN)
    mix = shown(simulation)
    assert (mix.turns, mix.measuring, mix.bursts) == (False, False, None)
    waits = [later - earlier for (_, earlier), (later, _) in itertools.pairwise(seldom.turns)]
    assert max(waits) < 3.0


def test_who_wants_more_than_its_share() -> None:
    """When the credit is used up, so that it would wait for whole quanta, it is beside the others again at once."""
    simulation, _, seldom = simulate((0.2, 0.8))
    simulation.run(KNOWN)
    assert shown(simulation).turns
    seldom.burst = (1.6, 0.4)
    simulation.run(15.0)
    assert not shown(simulation).turns
    assert shown(simulation).bursts is None
    gaps = [later - earlier for (_, earlier), (later, _) in itertools.pairwise(seldom.turns) if earlier > KNOWN]
    assert max(gaps) < 2.5, "not a quantum of 10 s"


def test_bursts_that_become_small_requests() -> None:
    """Turns that make what it does take longer than it did together end without another trial."""
    simulation, _, seldom = simulate((0.1, 0.9), step_seconds=0.001)
    simulation.run(KNOWN)
    assert shown(simulation).turns
    seldom.burst, seldom.queue_seconds = (0.004, 0.096), 0.0004
    simulation.run(5.0)
    assert not shown(simulation).turns


def test_no_longer_asked_to_give_way() -> None:
    """Who was told to leave when it is idle, so that its bursts are seen, is told the opposite when that is over."""
    simulation, busy, seldom = simulate((0.1, 0.9))
    while not (seldom.held and busy.held and seldom.waited_for):
        simulation.run(0.01)
    seldom.burst = (0.0, 0.0)
    simulation.run(15.0)
    assert not shown(simulation).measuring
    assert seldom.held
    assert seldom.waited_for == 0.0


def test_short_stalls_are_no_pauses() -> None:
    """Who has nothing to do for a moment now and then, and else uses its share, is measured by its rate."""
    simulation, _, _ = simulate((0.3, 0.04))
    simulation.run(KNOWN)
    assert shown(simulation).ratio == pytest.approx(0.9, abs=0.1)
    assert shown(simulation).bursts is None


def test_bursts_of_two() -> None:
    """Where all pause they stay together: there is nobody who could use what they leave."""
    simulation = MixSimulation(half(0.9), quantum_seconds=10.0, burst_seconds=1.0)
    simulation.add_bursts("a", 0.1, 0.9)
    simulation.add_bursts("a", 0.1, 0.7)
    simulation.run(KNOWN)
    assert not shown(simulation).turns


@pytest.mark.parametrize("policy", [Policy.EXCLUSIVE, Policy.OFF])
def test_only_auto(policy: Policy) -> None:
    """Under the other policies nobody is asked for anything."""
    simulation, _, seldom = simulate((0.1, 0.9), policy=policy, step_seconds=0.005)
    simulation.run(10.0)
    assert seldom.watched == 0
    assert simulation.core.snapshot(simulation.now)[0].mix is None


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_bursts(seed: int) -> None:
    """What is decided is for no bursts much worse than what the other way gives."""
    chance = random.Random(seed)
    work, rest = 10 ** chance.uniform(-2.3, -0.5), 10 ** chance.uniform(-0.7, 0.1)
    total = chance.choice((0.85, 1.0, 1.2, 1.9))
    took = {}
    for policy in Policy:
        simulation, _, seldom = simulate((work, rest), total=total, policy=policy)
        simulation.run(40.0)
        seldom.took.clear()
        simulation.run(20.0)
        took[policy] = sum(seldom.took) / len(seldom.took)
    assert took[Policy.AUTO] <= 1.25 * min(took.values())

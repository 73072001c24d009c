"""Equal clients get equal shares, and everybody is served in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.core_fairness import DRAIN, GIB, QUANTUM, Program, Simulation, held_seconds, jain
from nvshare.scheduler.core.events import Policy

PROGRAMS = st.builds(Program, st.sampled_from((0, 1, 3, 6, 10, 20)).map(GIB.__mul__), st.sampled_from((0.0, 1.0, 40.0)))


@pytest.mark.parametrize("clients", range(2, 17))
@pytest.mark.parametrize(("policy", "footprint"), [(Policy.EXCLUSIVE, 1), (Policy.AUTO, 12), (Policy.AUTO, 5)])
def test_equal_clients_get_equal_shares(clients: int, policy: Policy, footprint: int) -> None:
    """Over 100 quanta; the rest is that 100 turns can't always be divided evenly."""
    assert jain(held_seconds(clients, 100, policy, Program(footprint * GIB))) >= 0.99


def test_jains_index() -> None:
    """The measure itself: 1 for equal shares, 1/n when one has everything."""
    assert jain([2.0, 2.0, 2.0]) == 1.0
    assert jain([6.0, 0.0, 0.0]) == pytest.approx(1 / 3)


@given(st.lists(PROGRAMS, min_size=1, max_size=8), st.sampled_from((Policy.AUTO, Policy.EXCLUSIVE)))
def test_everybody_is_served_within_a_quantum_for_each_one_ahead(programs: list[Program], policy: Policy) -> None:
    """If holders obey: at most a quantum and a drain for the holders and for each waiter ahead."""
    simulation = Simulation(programs, policy)
    simulation.run(40 * QUANTUM)
    assert simulation.waits
    for wait in simulation.waits:
        assert wait.seconds <= (wait.ahead + 1) * (QUANTUM + DRAIN) + 1e-6

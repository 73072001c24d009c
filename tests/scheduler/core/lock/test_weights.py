"""Shares of a device's time by weight."""

from __future__ import annotations

import pytest

from bench.core_fairness import jain
from nvshare.scheduler.core.actions import Grant
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    LockReleased,
    LockRequested,
    Policy,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.simulation import CHUNK, GIB, PINNED, Machine, Simulation
from tests.scheduler.core.transcript import number as number_of
from tests.scheduler.core.transcript import replay
from tests.scheduler.core.workloads import Program, Workload


def test_a_quantum_is_scaled_by_weight() -> None:
    """A weighs 2 and has 60 s; B has 30 s."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A weighs 2
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        60   timer             -> revoke A
        60   A releases        -> grant B
        60   A asks            -> waiters B 1
        90   timer             -> revoke B
        """
    )


def test_the_clients_of_a_container_share_its_weight() -> None:
    """A and B are in one container and want the device both: 15 s each, and C 30 s. Then B is alone again: 30 s."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    C comes 1
        0    A is in box
        0    B is in box
        0    A asks            -> grant A
        0    B asks            -> waiters A 1
        0    C asks
        15   timer             -> revoke A
        15   A releases        -> grant B, waiters B 1
        45   timer             -> revoke B
        45   B releases        -> grant C
        45   B asks            -> waiters C 1
        75   timer             -> revoke C
        75   C releases        -> grant B
        75   C asks            -> waiters B 1
        76   A asks
        90   timer             -> revoke B
        """
    )


def test_terms_that_change_take_effect_at_once() -> None:
    """A's weight is halved when it has had 20 s: its turn is over; and doubled while it waits for nothing."""
    replay(
        """
        0    device 16
        0    A comes 1
        0    B comes 1
        0    A is in box
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        20   A weighs 0.5      -> revoke A
        21   A releases        -> grant B
        22   A asks            -> waiters B 1
        23   B weighs 4
        141  timer             -> revoke B
        """
    )


def test_the_first_whose_turn_is_over_leaves() -> None:
    """C fits without A or without B. A came first, but has 60 s; B's 30 s are over before."""
    replay(
        """
        0    device 16
        0    A comes 7
        0    B comes 7
        0    C comes 7
        0    A weighs 2
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> waiters B 1
        31   timer             -> revoke B
        31   B releases        -> grant C
        """,
        Policy.AUTO,
    )


def test_who_must_leave_together_leaves_when_the_longest_turn_is_over() -> None:
    """C needs what both have; A's turn is longer though it began before."""
    replay(
        """
        0    device 16
        0    A comes 7
        0    B comes 7
        0    C comes 12
        0    A weighs 2
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> waiters B 1, waiters A 1
        60   timer             -> revoke B, revoke A
        """,
        Policy.AUTO,
    )


def test_nobody_passes_whose_turn_may_be_longer_than_that_of_the_next() -> None:
    """C does not fit beside B, and so not before B's turn is over; D would still hold then, for it has 120 s."""
    replay(
        """
        0    device 16
        0    A comes 10
        0    B comes 12
        0    C comes 13
        0    D comes 3
        0    D weighs 4
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    C asks
        3    D asks
        """,
        Policy.AUTO,
    )


def test_no_quantum_is_too_short_and_the_shares_stay() -> None:
    """The quantum is 10 ms: B, which weighs a tenth, has that, and A ten times as much."""
    workload = Workload(
        [Program("A", drain_seconds=0.0), Program("B", drain_seconds=0.0)],
        {"B": Terms(weight=0.1)},
        Settings(Policy.EXCLUSIVE, 0.01),
    )
    workload.run(10.0)
    held = [workload.held(name) for name in "AB"]
    assert held[0] / sum(held) == pytest.approx(10 / 11, abs=0.005)
    assert min(end - began for began, end in workload.programs[2].turns) >= 0.01 - 1e-9


@pytest.mark.parametrize("quantum_seconds", [0.1, 1.0, 30.0])
@pytest.mark.parametrize(("policy", "footprint"), [(Policy.EXCLUSIVE, 1), (Policy.AUTO, 12)])
def test_shares_are_as_the_weights(quantum_seconds: float, policy: Policy, footprint: int) -> None:
    """Three that always work, of weights 1, 2 and 4; their drains take 2, 5 and 20 ms."""
    programs = [
        Program(name, footprint_bytes=footprint * GIB, drain_seconds=drain)
        for name, drain in (("A", 0.002), ("B", 0.005), ("C", 0.02))
    ]
    terms = {"A": Terms(weight=1), "B": Terms(weight=2), "C": Terms(weight=4)}
    workload = Workload(programs, terms, Settings(policy, quantum_seconds))
    workload.run(200 * quantum_seconds)
    held = [workload.held(name) for name in "ABC"]
    for share, weight in zip(held, (1, 2, 4), strict=True):
        assert share / sum(held) == pytest.approx(weight / 7, rel=0.02)


def test_containers_with_several_processes_have_one_share() -> None:
    """Four processes of one container, one of each of two others: a third each, and the processes the same."""
    programs = [Program(name) for name in ("A", "A", "A", "A", "B", "C")]
    workload = Workload(programs, {}, Settings(Policy.EXCLUSIVE, 2.0))
    workload.run(900.0)
    held = [workload.held(name) for name in "ABC"]
    assert jain(held) >= 0.9995
    each = [sum(end - began for began, end in workload.programs[place].turns) for place in (1, 2, 3, 4)]
    assert jain(each) >= 0.99


def test_shares_are_as_the_weights_where_memory_swaps() -> None:
    """Three of different size that do not fit together, and a quantum that is too short for the hand-overs."""
    simulation = Simulation(Machine(), Policy.EXCLUSIVE, 0.5)
    sizes = (12 * GIB, 9 * GIB, 6 * GIB)
    for size in sizes:
        simulation.add((size - PINNED) // CHUNK * CHUNK, 5e4)
    simulation.run(lambda: len(simulation.core.snapshot(simulation.now)[0].clients) == len(sizes))
    for number, weight in zip(simulation.programs, (1.0, 2.0, 4.0), strict=True):
        simulation.core.handle(ContainerFound(number, f"of weight {weight}", Terms(weight)), simulation.now)
    held = [0.0, 0.0, 0.0]
    for sign, turns in ((-1, 3), (1, 13)):
        # Ten whole rounds, from grant to grant.
        simulation.run(lambda turns=turns: simulation.programs[1].turns == turns)  # type: ignore[misc]
        for place, client in enumerate(simulation.core.snapshot(simulation.now)[0].clients):
            held[place] += sign * client.held_seconds
    for share, weight in zip(held, (1, 2, 4), strict=True):
        assert share / sum(held) == pytest.approx(weight / 7, rel=0.02)


def test_snapshots_show_the_terms() -> None:
    """Each client's container's."""
    core = replay(
        """
        0    device 16
        0    A comes 1
        0    A weighs 2
        0    A is low
        0    A at most 30%
        """
    )
    shown = core.client(number_of("A"), 0.0)
    assert (shown.terms.weight, shown.terms.priority.name, shown.terms.compute_limit) == (2.0, "LOW", 0.3)


def own(weight: float, owner: str = "@1000") -> Terms:
    """What a user's program says itself."""
    return Terms(weight=weight, owner=owner)


def turns_of(*terms: Terms, quantum_seconds: float = 1.0, longest_turn: float = 10.0) -> list[float]:
    """How long the turn of each of these containers is, while a client of each wants the device."""
    core = Core(Settings(Policy.EXCLUSIVE, quantum_seconds, longest_turn))
    core.handle(DeviceSeen("GPU-0", 16 * GIB), 0.0)
    for number, each in enumerate(terms):
        core.handle(ClientRegistered(number, "GPU-0", 0, ClaimedState.IDLE), 0.0)
        core.handle(ContainerFound(number, str(number), each), 0.0)
    actions = [action for number in range(len(terms)) for action in core.handle(LockRequested(number), 0.0)]
    lengths: dict[int, float] = {}
    began = now = 0.0
    while len(lengths) < len(terms):
        (grant,) = (action for action in actions if isinstance(action, Grant))
        began, now = now, core.deadline() or 0.0
        lengths[grant.client] = round(now - began, 9)
        core.handle_timer(now)
        actions = core.handle(LockReleased(grant.client, grant.grant), now)
        actions += core.handle(LockRequested(grant.client), now)
    return [lengths[number] for number in range(len(terms))]


def test_what_a_program_says_itself_takes_nothing_from_others() -> None:
    """However much it asks for, and however little many do: others' turns are as long as before."""
    assert turns_of(own(1000), Terms(), own(1, "@1001")) == [1, 1, 1]
    many = turns_of(*[own(0.01)] * 128, Terms())
    assert set(many) == {1.0}


def test_it_divides_what_its_user_has() -> None:
    """Two programs of one user have twice what one of another has, divided as they say."""
    assert turns_of(own(3), own(1), own(7, "@1001")) == [1.5, 0.5, 1.0]


def test_an_operator_s_weight_counts_against_all() -> None:
    """Beside those of users, whatever they say."""
    assert turns_of(Terms(weight=4), own(100), own(1, "@1001")) == [4, 1, 1]


def test_no_turn_is_longer_than_some_quanta() -> None:
    """Whatever weights there are."""
    assert turns_of(Terms(weight=1000), Terms()) == [10, 1]
    assert max(turns_of(*[own(1000)], *[own(0.01)] * 100, Terms(weight=0.01))) == 10
    assert turns_of(Terms(weight=1000), Terms(), longest_turn=3) == [3, 1]

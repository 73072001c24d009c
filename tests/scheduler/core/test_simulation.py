"""What swapping costs and what it hides, in virtual time: the core with clients, a link and drains."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import Policy
from tests.scheduler.core.simulation import CHUNK, GIB, MIB, PINNED, Machine, Simulation


def share(machine: Machine, clients: int, part: float) -> int:
    """So large a part of the memory that can move when so many clients have a context."""
    left = machine.total_bytes - machine.reserve_bytes - clients * PINNED
    return int(left * part) // CHUNK * CHUNK


def run(
    clients: int, part: float, quantum_seconds: float, policy: Policy, work_seconds: float = 60.0
) -> tuple[Simulation, float]:
    """The simulation after the end of equal programs, and their makespan over what they take one after another."""
    machine = Machine(total_bytes=max(16, 2 * clients) * GIB)
    simulation = Simulation(machine, policy, quantum_seconds)
    for _ in range(clients):
        simulation.add(share(machine, clients, part), work_seconds)
    end = simulation.run_all()
    assert not any(program.refused for program in simulation.programs.values())
    return simulation, end / (clients * work_seconds)


@pytest.mark.parametrize(("part", "most"), [(0.75, 1.05), (0.98, 1.10)])
def test_two_that_do_not_fit_together(part: float, most: float) -> None:
    """At 150 and 200 % of the memory, quantum 5 s: the hand-overs cost no more than 5 and 10 %."""
    simulation, ratio = run(2, part, 5.0, Policy.AUTO)
    assert 1.0 < ratio <= most
    traffic = simulation.core.snapshot(simulation.now)[0].traffic
    assert traffic.stalls > traffic.prefetched
    assert traffic.out_bytes_per_second == pytest.approx(simulation.machine.bytes_per_second, rel=0.1)


@pytest.mark.parametrize("clients", [4, 8])
def test_neighbours_that_fit_hide_the_transfers(clients: int) -> None:
    """Each at most half of the memory: the next one comes in while another computes; a hand-over is only the drain."""
    simulation, ratio = run(clients, 0.5, 2.0, Policy.EXCLUSIVE, 20.0)
    assert ratio <= 1.02
    traffic = simulation.core.snapshot(simulation.now)[0].traffic
    assert traffic.prefetched >= traffic.stalls - 2 * clients
    assert traffic.out_bytes > 10 * GIB


def test_the_farthest_turn_moves_one_client_a_hand_over() -> None:
    """Three of four fit: each turn brings one in and one out; the least recently used would move every one's memory."""
    simulation, _ = run(4, 0.33, 2.0, Policy.EXCLUSIVE, 20.0)
    programs = simulation.programs.values()
    turns = sum(program.turns for program in programs)
    size = next(iter(programs)).footprint_bytes
    lacking = 4 * size - share(simulation.machine, 4, 1.0)
    # B* of each hand-over: what lacks, by the number of the others.
    moved = sum(program.moved_out for program in programs)
    assert moved <= 1.3 * turns * lacking


@pytest.mark.parametrize("clients", [2, 3, 5, 16, pytest.param(64, marks=pytest.mark.soak)])
def test_everyone_is_served(clients: int) -> None:
    """Any number of clients takes turns fairly, and no holder is ever told to leave memory."""
    simulation, _ = run(clients, {16: 0.3, 64: 0.05}.get(clients, 0.7), 1.0, Policy.EXCLUSIVE, 2.0)
    turns = [program.turns for program in simulation.programs.values()]
    assert max(turns) - min(turns) <= 1


def test_contexts_that_start_at_once_on_a_full_device() -> None:
    """One program fills the device and computes, eight others start at the same moment: all get their contexts."""
    simulation = Simulation(Machine(), Policy.AUTO, 2.0)
    first = simulation.add(share(simulation.machine, 9, 0.97), 1e4)
    simulation.run(lambda: first.turns == 1)
    others = [simulation.add(256 * MIB, 1.0) for _ in range(8)]
    simulation.run(lambda: all(program.ended is not None for program in others))
    assert not any(program.refused for program in others)


def test_an_idle_client_leaves_before_anybody_else() -> None:
    """Memory of one that wants nothing makes room for those who compute, and then stays out."""
    simulation = Simulation(Machine(), Policy.AUTO, 2.0)
    size = share(simulation.machine, 3, 0.5)
    idle = simulation.add(size, 0.5)
    simulation.run(lambda: idle.ended is not None)
    programs = [simulation.add(size, 8.0) for _ in range(2)]
    simulation.run(lambda: all(program.ended is not None for program in programs))
    assert all(program.moved_out == 0 for program in programs)
    assert idle.moved_out >= size - CHUNK


def test_the_quantum_is_far_longer_than_the_stall() -> None:
    """A quantum that is much too short costs 5 % all the same, and not half of the time."""
    _, ratio = run(2, 0.98, 0.1, Policy.AUTO, 30.0)
    assert ratio <= 1.10

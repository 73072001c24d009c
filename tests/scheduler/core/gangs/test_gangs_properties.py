"""Gangs against a model of collectives: whatever programs there are, none of them ever stands still."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nvshare.scheduler.core.events import Policy
from tests.scheduler.core.gangs.gang_model import Model
from tests.scheduler.core.gangs.gang_programs import GIB, Program

DEVICES = 8
MOMENTS = st.sampled_from((0.0, 0.05, 0.31, 1.0, 1.7, 2.6))
PROGRAMS = st.builds(
    Program,
    devices=st.lists(st.integers(0, DEVICES - 1), min_size=1, max_size=8).map(tuple),
    start=MOMENTS,
    collectives=st.integers(1, 15),
    step_seconds=st.sampled_from((0.05, 0.15)),
    footprint_bytes=st.sampled_from((GIB, 7 * GIB)),
    alone_steps=st.sampled_from((0, 0, 2, 9)),
    pause_every=st.sampled_from((0, 0, 3)),
    pause_seconds=st.sampled_from((0.4, 1.5)),
    leaves=st.booleans(),
    dies_at=st.none() | MOMENTS,
    lost_at=st.none() | MOMENTS,
    delays=st.just(()) | st.lists(st.sampled_from((0.0, 0.4, 1.3, 4.0, 23.0)), min_size=8, max_size=8).map(tuple),
)

LOST_AT_ONCE = Program(
    (1, 1, 1, 0), collectives=1, step_seconds=0.05, footprint_bytes=GIB, alone_steps=2, leaves=False, lost_at=0.0
)
"""Its first process is back when the others are a gang on two devices that hold; it fits beside them."""


def spread(program: Program, devices: int) -> Program:
    """The same program on so many devices."""
    return Program(
        tuple(device % devices for device in program.devices),
        program.start,
        program.collectives,
        program.step_seconds,
        program.footprint_bytes,
        # One that is alone has nothing but this.
        program.alone_steps if len(program.devices) > 1 else program.alone_steps + program.collectives,
        program.pause_every,
        program.pause_seconds,
        program.leaves,
        program.dies_at,
        program.lost_at,
        program.delays[: len(program.devices)],
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(PROGRAMS, min_size=1, max_size=6),
    st.sampled_from((1, 2, 3, DEVICES)),
    st.sampled_from((Policy.AUTO, Policy.EXCLUSIVE)),
    st.sampled_from((0.5, 2.0)),
)
@example([LOST_AT_ONCE], 2, Policy.AUTO, 0.5)
def test_every_program_ends(programs: list[Program], devices: int, policy: Policy, quantum_seconds: float) -> None:
    """Gangs come and go, are lost and come back, and every collective completes.

    No member is ever granted the lock, or keeps it, without all; no gang shares its devices; every drain ends, and
    nobody waits longer than all others' turns take. Only where a connection is lost before all have said to whom they
    are tied may a drain take the grace time.
    """
    model = Model(devices, policy, quantum_seconds)
    for program in programs:
        model.start(spread(program, devices))
    model.run(1000.0)
    assert all(process.ended for job in model.jobs for process in job.processes)
    assert not model.stuck or any(program.lost_at is not None for program in programs)
    clients = sum(len(program.devices) for program in programs)
    assert model.longest_wait <= 2 * (clients + 1) * (quantum_seconds + 1.0)


def hour(seed: int, seconds: float) -> Model:
    """Programs that come all the time."""
    chance = random.Random(seed)
    model = Model(DEVICES, Policy.AUTO, 5.0)

    def come() -> None:
        size = chance.choice((1, 1, 2, 2, 3, 4, 8))
        program = Program(
            tuple(chance.sample(range(DEVICES), size)),
            0.0,
            chance.randint(10, 120),
            chance.choice((0.2, 0.5)),
            chance.choice((4 * GIB, 30 * GIB)),
            alone_steps=chance.choice((0, 5)) if size > 1 else chance.randint(5, 60),
            pause_every=chance.choice((0, 10)),
            pause_seconds=chance.choice((0.5, 5.0)),
            dies_at=chance.uniform(0, 60) if chance.random() < 0.05 else None,
            lost_at=chance.uniform(0, 60) if chance.random() < 0.1 else None,
            delays=tuple(chance.uniform(0, 40) for _ in range(size)) if chance.random() < 0.3 else (),
        )
        model.start(program)
        if model.now < seconds:
            model.after(chance.expovariate(1 / 90), come)

    model.goes_on_until = seconds
    for _ in range(4):
        come()
    model.run()
    return model


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_an_hour() -> None:
    """Random gangs and single clients on eight devices for an hour of virtual time: never does it stand still."""
    model = hour(1, 3600.0)
    assert model.now >= 3600.0
    assert model.missing
    assert not model.stuck
    assert all(process.ended for job in model.jobs for process in job.processes)


def test_the_same_events_give_the_same_actions() -> None:
    """Nothing depends on hashes or addresses."""
    assert hour(7, 60.0).answers == hour(7, 60.0).answers


@pytest.mark.parametrize("seed", range(12))
def test_a_member_that_can_not_stop_is_joined_by_the_others(seed: int) -> None:
    """One that was away for so long that the others went on without it: late, but all of them go on."""
    chance = random.Random(seed)
    model = Model(2, Policy.EXCLUSIVE, 1.0)
    model.back_seconds = 4.0
    for _ in range(3):
        model.start(Program((0, 1), chance.random(), 30, 0.1, lost_at=chance.uniform(0.5, 4.0)))
    model.run(1000.0)
    assert all(process.ended for job in model.jobs for process in job.processes)

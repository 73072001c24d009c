"""Random programs on random terms: nobody waits who could be admitted, everybody is served, limits hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import ShownState
from nvshare.scheduler.core.terms import Priority, Terms
from tests.scheduler.core.workloads import DEVICE_BYTES, FOREVER, GIB, Program, Workload

CONTAINERS = ("a", "b", "c", "d")
QUANTUM = 0.5
TERMS = st.builds(
    Terms,
    weight=st.sampled_from((0.2, 1.0, 1.0, 3.0)),
    priority=st.sampled_from(Priority),
    compute_limit=st.sampled_from((None, None, 0.1, 0.4, 0.9, 1.0)),
)
PROGRAMS = st.builds(
    Program,
    st.sampled_from(CONTAINERS),
    st.sampled_from((0.05, 0.3, 2.0, FOREVER, FOREVER)),
    st.sampled_from((0.05, 0.5, 3.0)),
    st.sampled_from((0, 1, 4, 7, 12)).map(GIB.__mul__),
    st.sampled_from((0.0, 0.002, 0.02)),
    st.sampled_from((0.0, 0.3, 2.0)),
)
CHANGES = st.lists(st.tuples(st.sampled_from((0.4, 1.0, 3.3)), st.sampled_from(CONTAINERS), TERMS), max_size=4)
ALL_TERMS = st.fixed_dictionaries(dict.fromkeys(CONTAINERS, TERMS))
CHOICES = st.builds(
    Settings,
    st.sampled_from((Policy.AUTO, Policy.AUTO, Policy.EXCLUSIVE)),
    st.just(QUANTUM),
    assumed_pinned_bytes=st.just(0),
    floor=st.sampled_from((0.05, 0.2, 0.5)),
    burst_seconds=st.sampled_from((0.0, 1.0)),
)


def check(workload: Workload, policy: Policy) -> None:
    """Nobody waits who fits beside those who hold, but for who passes nobody, and whom a limit keeps out."""
    deadline = workload.core.deadline()
    if deadline is not None and deadline <= workload.now:
        # The timer is due at this very moment, and comes next.
        return
    (device,) = workload.core.snapshot(workload.now)
    holders = [client for client in device.clients if client.state not in (ShownState.IDLE, ShownState.WAITING)]
    assert policy is not Policy.EXCLUSIVE or len(holders) <= 1
    held_bytes = sum(client.footprint_bytes or 0 for client in holders)
    assert len(holders) <= 1 or held_bytes <= DEVICE_BYTES
    waiting = [client for client in device.clients if client.line is not None and not client.line.limit_seconds]
    if waiting and (first := min(waiting, key=lambda client: client.line.position if client.line else 0)):
        fits = policy is Policy.AUTO and held_bytes + (first.footprint_bytes or 0) <= DEVICE_BYTES
        assert holders, "nobody holds and somebody waits"
        assert not fits, "the first that is able to come fits and waits"


@settings(max_examples=40)
@given(st.lists(PROGRAMS, min_size=1, max_size=5), ALL_TERMS, CHOICES, CHANGES)
def test_nobody_waits_who_could_be_admitted(
    programs: list[Program], terms: dict[str, Terms], chosen: Settings, changes: list[tuple[float, str, Terms]]
) -> None:
    """Whatever terms there are and become; the workload itself sees that no grant is revoked twice."""
    workload = Workload([replace(program) for program in programs], terms, chosen)
    end = 0.0
    for seconds, name, changed in [*changes, (5.0, "", Terms())]:
        while end < seconds:
            end += 0.1
            workload.run(end)
            check(workload, chosen.policy)
        if any(program.container == name for program in programs):
            workload.set_terms(name, changed)
            check(workload, chosen.policy)


@settings(max_examples=40)
@given(st.lists(PROGRAMS, min_size=1, max_size=5), ALL_TERMS, CHOICES)
def test_everybody_is_served(programs: list[Program], terms: dict[str, Terms], chosen: Settings) -> None:
    """No class starves that has a floor. The time is that of the lowest class: a floor of the floor, a slice each."""
    workload = Workload([replace(program) for program in programs], terms, chosen)
    slowest = min(each.weight for each in terms.values()) / (5 * 3.0)
    limit = min(each.compute_limit or 1.0 for each in terms.values())
    turn = QUANTUM / slowest * (1 + chosen.burst_seconds)
    end = 2.0 + 4 * len(programs) * turn / (chosen.floor**2 * limit)
    while not all(program.waited for program in workload.programs.values()):
        assert workload.now < end, "somebody never held"
        workload.run(workload.now + 1.0)


@settings(max_examples=40)
@given(st.lists(PROGRAMS, min_size=1, max_size=5), ALL_TERMS, CHOICES)
def test_no_limit_is_exceeded(programs: list[Program], terms: dict[str, Terms], chosen: Settings) -> None:
    """By more than 2 % over ten seconds and a drain, in windows that begin anywhere."""
    workload = Workload([replace(program) for program in programs], terms, chosen)
    workload.run(20.0)
    for name, each in terms.items():
        if each.compute_limit is not None and each.compute_limit < 1:
            for tenth in range(0, 100, 7):
                start = tenth / 10
                assert workload.held(name, start, start + 10.0) <= 10 * (each.compute_limit + 0.02) + 0.02 + 1e-6

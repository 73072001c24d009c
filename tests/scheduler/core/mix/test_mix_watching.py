"""Who is asked for its progress, what is believed of it, and where nothing is measured."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.actions import Action, Grant, Revoke, Watch
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    FootprintChanged,
    HolderDied,
    HolderRecorded,
    LockReleased,
    LockRequested,
    Policy,
    PolicySet,
    ProgressOffered,
)
from nvshare.scheduler.core.settings import Settings
from tests.scheduler.core.mix.mix_simulation import MixSimulation, Rates

DEVICE = "GPU-a"
GIB = 1 << 30


def half(total: float) -> Rates:
    """Two do ``total`` times as much together as one alone."""
    return lambda kinds: (1.0,) if len(kinds) == 1 else (total / len(kinds),) * len(kinds)


def core() -> Core:
    """With one device of 16 GiB."""
    made = Core(Settings(assumed_pinned_bytes=0))
    made.handle(DeviceSeen(DEVICE, 16 * GIB), 0.0)
    return made


def come(to: Core, client: int, gib: int, *, able: bool = True) -> list[Action]:
    """A client registers and asks for the lock."""
    event = ClientRegistered(client, DEVICE, gib * GIB, ClaimedState.IDLE, backend=Backend.MANAGED)
    actions = to.handle(event, 0.0)
    if able:
        actions += to.handle(ProgressOffered(client), 0.0)
    return actions + to.handle(LockRequested(client), 0.0)


def watched(actions: list[Action]) -> dict[int, bool]:
    """Who is asked to report, and who not any more."""
    return {action.client: action.interval_seconds > 0 for action in actions if isinstance(action, Watch)}


def in_trial() -> MixSimulation:
    """Two programs in the middle of a trial."""
    simulation = MixSimulation(half(0.9))
    simulation.add("a")
    simulation.add("b")
    simulation.run(3.0)
    assert any(program.watched == 0.1 for program in simulation.programs)
    return simulation


def test_from_the_second_one_on() -> None:
    """One alone is not watched; two are, before the second one is granted; and when one is gone nobody is."""
    made = core()
    assert watched(come(made, 1, 4)) == {}
    actions = come(made, 2, 4)
    assert watched(actions) == {1: True, 2: True}
    assert isinstance(actions[-1], Grant)
    assert watched(made.handle(ClientGone(2), 1.0)) == {1: False}


def test_who_pauses_is_not_watched() -> None:
    """It is told so by itself, three seconds after it gave the lock back, and not when something else happens."""
    made = core()
    actions = come(made, 1, 4) + come(made, 2, 4)
    for grant in (action for action in actions if isinstance(action, Grant)):
        assert watched(made.handle(LockReleased(grant.client, grant.grant), 1.0)) == {}
    assert made.deadline() == 4.0
    assert watched(made.handle_timer(4.0)) == {1: False, 2: False}
    assert made.deadline() is None


@pytest.mark.parametrize("total", [0.9, 1.9])
def test_who_holds_together_is_told(total: float) -> None:
    """As long as it is not known better, and when it is; not in a trial, nor where turns are better."""
    simulation = MixSimulation(half(total))
    simulation.add("a")
    simulation.add("b")
    seen = set()
    while simulation.now < 20:
        simulation.run(0.05)
        shown = simulation.core.snapshot(simulation.now)[0].mix
        if shown is not None:
            measured = shown.ratio is not None and not shown.measuring
            seen |= {(measured, program.told_together) for program in simulation.programs}
    assert seen == {(False, True), (False, False), (True, total > 1)}
    simulation.end(simulation.programs[1])
    simulation.run(0.1)
    assert not simulation.programs[0].told_together


def test_what_does_not_fit_together() -> None:
    """Those that take turns because of memory are not watched, until they fit."""
    made = core()
    come(made, 1, 10)
    assert watched(come(made, 2, 10)) == {}
    assert watched(made.handle(FootprintChanged(2, 5 * GIB), 1.0)) == {1: True, 2: True}
    assert watched(made.handle(FootprintChanged(1, 14 * GIB), 2.0)) == {1: False, 2: False}


def test_one_that_can_not_report() -> None:
    """Beside a client that can't report nobody is measured: what all of them do together would not be known."""
    made = core()
    come(made, 1, 1)
    assert watched(come(made, 2, 1)) == {1: True, 2: True}
    assert watched(come(made, 3, 1, able=False)) == {1: False, 2: False}
    assert watched(made.handle(ClientGone(3), 1.0)) == {1: True, 2: True}


def test_the_policy_decides() -> None:
    """Another policy ends it at once, and ``auto`` begins it anew."""
    made = core()
    come(made, 1, 1)
    come(made, 2, 1)
    assert watched(made.handle(PolicySet(Policy.EXCLUSIVE), 1.0)) == {1: False, 2: False}
    assert watched(made.handle(PolicySet(Policy.AUTO), 2.0)) == {1: True, 2: True}


def test_while_a_recorded_holder_is_awaited() -> None:
    """Nothing is granted then, so nothing is measured."""
    made = core()
    made.handle(HolderRecorded(DEVICE, 7), 0.0)
    come(made, 1, 1)
    assert watched(come(made, 2, 1)) == {}
    assert watched(made.handle(HolderDied(7), 1.0)) == {1: True, 2: True}


def test_many() -> None:
    """More than a few dozen at a time are not measured: an event costs the same however many there are."""
    made = core()
    seen: dict[int, bool] = {}
    for client in range(1, 34):
        seen |= watched(come(made, client, 0))
    assert set(seen) == set(range(1, 33))
    assert not any(seen.values())


def test_one_that_does_not_answer() -> None:
    """A holder that says nothing any more in a trial ends the trial; the others go on beside it."""
    simulation = in_trial()
    first, second = simulation.programs
    second.stuck = True
    simulation.run(20.0)
    assert simulation.core.snapshot(simulation.now)[0].clients[0].state.value == "holding"
    done = first.done
    simulation.run(2.0)
    assert first.done - done >= 1.9 * first.rate
    assert simulation.core.snapshot(simulation.now)[0].mix is None


def test_a_trial_ends_by_itself() -> None:
    """Though nobody reports any more: the core wants to be woken, and gives up."""
    simulation = in_trial()
    made, now = simulation.core, simulation.now
    for program in simulation.programs:
        if program.held:
            made.handle(LockReleased(program.number, program.grant), now)
        made.handle(ProgressOffered(program.number), now)
    for _ in range(20):
        deadline = made.deadline()
        if deadline is None:
            break
        now = max(now, deadline)
        for action in made.handle_timer(now):
            if isinstance(action, Grant | Revoke):
                made.handle(LockReleased(action.client, action.grant), now)
    else:
        raise AssertionError("it goes on for ever")
    shown = made.snapshot(now)[0].mix
    assert shown is None or not shown.measuring or shown.ratio is None


def test_one_that_stops_in_a_trial() -> None:
    """Who has nothing more to do is no part of the mix any more, and the other one runs on."""
    simulation = in_trial()
    first, second = simulation.programs
    second.pause = (simulation.now, 1000.0)
    simulation.run(5.0)
    done = first.done
    simulation.run(2.0)
    assert first.done - done >= 1.9 * first.rate
    assert simulation.core.snapshot(simulation.now)[0].mix is None


def test_gaps_make_trials_rarer() -> None:
    """Where all mostly find the device with nothing left to do, less is tried."""
    revokes = []
    for gaps in (0.2, 0.9):
        simulation = MixSimulation(half(1.9))
        for _ in range(2):
            simulation.add("a", queue_seconds=0.002).gaps = gaps
        simulation.run(300)
        revokes.append(simulation.core.snapshot(simulation.now)[0].totals.revokes)
    assert 0 < revokes[1] < revokes[0]

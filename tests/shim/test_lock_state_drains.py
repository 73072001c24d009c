"""What a client does while it drains: transcripts of the state of its lock."""

from __future__ import annotations

import pytest

from nvshare.protocol import wire
from tests.shim.lock_state_model import NEVER, Action, Done, Event, IllegalEventError, Link, Lock, LockState
from tests.shim.test_lock_state import holding, lose, reregister

SECOND = 1_000_000
REGISTER_DRAINING = Done(Action.SEND_REGISTER, wire.State.DRAINING, 3)
RELEASED = Done(Action.SEND_LOCK_RELEASED, grant=3)
STEPPING = Done(Action.SEND_DRAIN_REPORT, wire.Drain.STEPPING, 3)
PUT_OFF = Done(Action.SEND_DRAIN_REPORT, wire.Drain.PUT_OFF, 3)


def draining(level: int = wire.LEVEL) -> LockState:
    """A client that holds grant 3 and was asked to give it back."""
    state = holding(grant=3)
    state.raw.level = level
    assert state.kinds(Event.DROP_LOCK, grant=3) == [Action.DRAIN]
    return state


def stepped_and_put_off(state: LockState) -> int:
    """The drain leads nowhere; how long the client waits before it tries again."""
    assert state.handle(Event.STEPPING) == [STEPPING]
    assert state.handle(Event.PUT_OFF) == [Done(Action.OPEN_GATE), PUT_OFF]
    assert state.lock is Lock.HOLDING
    return state.deadline - state.now


def test_hears_the_scheduler_while_it_drains() -> None:
    """Whatever the scheduler says during a drain is heard then."""
    state = draining()
    assert state.handle(Event.DROP_LOCK, grant=3) == []
    assert state.handle(Event.WAITERS, waiters=3, idle_microseconds=1000) == []
    assert state.lock is Lock.DRAINING
    lose(state)
    assert state.deadline != NEVER


def test_registers_as_draining() -> None:
    """A drain goes on while the scheduler is replaced; the next one hears of it, and of its end."""
    state = draining()
    lose(state)
    assert reregister(state) == REGISTER_DRAINING
    assert state.handle(Event.SCHED_ON, epoch=8, level=1) == []
    assert state.lock is Lock.DRAINING
    assert state.handle(Event.DRAINED) == [RELEASED]


@pytest.mark.parametrize(("waiting", "asked"), [(False, False), (True, False), (False, True)])
def test_drained_before_the_next_scheduler_has_answered(waiting: bool, asked: bool) -> None:
    """It was told of a drain, so it hears of its end as soon as it listens, and of who waits since."""
    state = draining()
    lose(state)
    reregister(state)
    assert state.handle(Event.DRAINED, waiting=waiting) == []
    if asked:
        assert state.handle(Event.WANTED) == []
    expected = [RELEASED, Done(Action.SEND_REQ_LOCK)] if waiting or asked else [RELEASED]
    assert state.handle(Event.SCHED_ON, epoch=8, level=1) == expected
    assert state.lock is (Lock.WAITING if waiting or asked else Lock.IDLE)


@pytest.mark.parametrize("waiting", [True, False])
def test_holds_again_when_nobody_hears_the_end(waiting: bool) -> None:
    """The lock could not be given back: the client holds it still, and says so to the next scheduler."""
    state = draining()
    lose(state)
    assert state.handle(Event.DRAINED, waiting=waiting) == [Done(Action.OPEN_GATE)]
    assert reregister(state) == Done(Action.SEND_REGISTER, wire.State.HOLDING, 3)


@pytest.mark.parametrize("loss", [Event.DISCONNECTED, Event.BAD_FRAME, Event.REFUSED])
def test_holds_again_when_the_next_scheduler_goes_too(loss: Event) -> None:
    """The same when it was told of the drain and never answered."""
    state = draining()
    lose(state)
    reregister(state)
    state.handle(Event.DRAINED)
    assert Action.OPEN_GATE in state.kinds(loss)
    assert (state.link, state.lock) == (Link.DOWN, Lock.HOLDING)


def test_next_scheduler_may_number_what_drains() -> None:
    """As for a holder: once, in LOCK_OK or DROP_LOCK, and LOCK_RELEASED has that number."""
    for kind in (Event.LOCK_OK, Event.DROP_LOCK):
        state = draining()
        lose(state)
        state.connect(epoch=8)
        assert state.handle(kind, grant=70) == []
        with pytest.raises(IllegalEventError):
            state.handle(Event.LOCK_OK, grant=71)
        assert state.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=70)]


def test_put_off() -> None:
    """A drain that leads nowhere is tried again, ever later, with the gate open and the lock held in between."""
    state = draining()
    delays = []
    for _ in range(7):
        delays.append(stepped_and_put_off(state) // SECOND)
        assert state.pass_time() == [Done(Action.DRAIN)]
    assert delays == [1, 2, 4, 8, 16, 30, 30]
    assert state.handle(Event.DRAINED) == [RELEASED]
    state.handle(Event.WANTED)
    state.handle(Event.LOCK_OK, grant=3)
    state.handle(Event.DROP_LOCK, grant=3)
    assert stepped_and_put_off(state) == SECOND, "the next turn begins anew"


def test_put_off_ends_with_the_scheduler() -> None:
    """The next one hears of a holder, and asks for the lock when it wants it."""
    state = draining()
    stepped_and_put_off(state)
    lose(state)
    assert reregister(state) == Done(Action.SEND_REGISTER, wire.State.HOLDING, 3)
    assert state.handle(Event.SCHED_ON, epoch=8, level=1) == []
    assert state.deadline == NEVER


def test_put_off_while_registering() -> None:
    """The next scheduler was told of a drain: it hears that it was put off, and the drain is tried again."""
    state = draining()
    lose(state)
    reregister(state)
    assert state.handle(Event.PUT_OFF) == [Done(Action.OPEN_GATE)]
    assert state.handle(Event.SCHED_ON, epoch=8, level=1) == [PUT_OFF]
    assert state.pass_time() == [Done(Action.DRAIN)]


def test_looks_again_after_it_was_put_off() -> None:
    """Others still wait: a holder that goes idle before the drain is tried again gives way at once."""
    state = holding(grant=3)
    state.raw.level = 1
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=20_000)
    state.pass_time()
    state.handle(Event.DROP_LOCK, grant=3)
    assert stepped_and_put_off(state) == 20_000
    for _ in range(2):
        assert state.pass_time() == [Done(Action.LOOK)]
        done = state.handle(Event.LOOKED, submissions=10, completed=True)
    assert done == [Done(Action.DRAIN)]


def test_old_scheduler_hears_no_reports() -> None:
    """One that does not know them would take them for nonsense."""
    state = draining(level=0)
    assert state.handle(Event.STEPPING) == []
    assert state.handle(Event.PUT_OFF) == [Done(Action.OPEN_GATE)]


def test_next_scheduler_hears_of_the_steps() -> None:
    """Who comes while a drain steps is told so."""
    state = draining()
    state.handle(Event.STEPPING)
    lose(state)
    reregister(state)
    assert state.handle(Event.SCHED_ON, epoch=8, level=1) == [STEPPING]


def test_look_that_goes_on_when_the_drain_begins() -> None:
    """It is forgotten; should its answer come all the same, it means nothing."""
    state = holding(grant=3)
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=1000)
    assert state.pass_time() == [Done(Action.LOOK)]
    assert state.kinds(Event.DROP_LOCK, grant=3) == [Action.DRAIN]
    assert state.handle(Event.LOOKED, submissions=1, completed=True) == []
    state.handle(Event.DRAINED, waiting=True)
    state.handle(Event.LOCK_OK, grant=4)
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=1000)
    assert state.pass_time() == [Done(Action.LOOK)]


def test_one_look_at_a_time() -> None:
    """Waiters that go and come again during a look begin no second one: two answers in a row would look idle."""
    state = holding()
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=1000)
    state.pass_time()
    state.handle(Event.WAITERS, waiters=0)
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=1000)
    assert state.deadline == NEVER
    state.handle(Event.LOOKED, submissions=1, completed=True)
    assert state.deadline == state.now + 1000


def test_rests_though_nobody_waits() -> None:
    """So that its process can sleep; and sooner, as soon as somebody waits."""
    state = holding(grant=2)
    state.handle(Event.WAITERS, waiters=0, idle_microseconds=SECOND)
    assert state.pass_time() == [Done(Action.LOOK)]
    state.handle(Event.LOOKED, submissions=10, completed=True)
    assert state.deadline == state.now + SECOND
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=20 * 1000)
    assert state.deadline == state.now + 20 * 1000
    state.handle(Event.WAITERS, waiters=0, idle_microseconds=SECOND)
    assert state.pass_time() == [Done(Action.LOOK)]
    assert state.handle(Event.LOOKED, submissions=10, completed=True) == [Done(Action.DRAIN)]

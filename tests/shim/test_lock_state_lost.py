"""A device that is lost to the process: its lock is given back once, and neither asked for nor kept again."""

from __future__ import annotations

import pytest

from nvshare.protocol import wire
from tests.shim.lock_state_model import NEVER, Action, Done, Event, Link, Lock, LockState, OnMissing
from tests.shim.test_lock_state import holding, lose


def test_a_holder_gives_it_back() -> None:
    """It drains at once, whoever waits at the gate, and no wish brings a request."""
    state = holding(grant=5)
    assert state.kinds(Event.LOST) == [Action.DRAIN]
    assert state.handle(Event.DRAINED, waiting=True) == [
        Done(Action.SEND_LOCK_RELEASED, grant=5),
        Done(Action.LOSE_GATE),
    ]
    assert state.handle(Event.WANTED) == []
    assert (state.link, state.lock, state.deadline) == (Link.UP, Lock.IDLE, NEVER)


def test_a_drain_finds_it() -> None:
    """Who was waiting for the next turn does not."""
    state = holding(grant=5)
    state.handle(Event.DROP_LOCK, grant=5)
    assert state.handle(Event.LOST) == []
    assert state.handle(Event.DRAINED, waiting=True) == [
        Done(Action.SEND_LOCK_RELEASED, grant=5),
        Done(Action.LOSE_GATE),
    ]


def test_a_member_of_a_gang_waits_to_be_asked() -> None:
    """All of a gang give it back together; without the gang it does so alone."""
    state = holding(grant=5)
    state.handle(Event.GANG, slots=2)
    assert state.handle(Event.LOST) == []
    assert state.kinds(Event.GANG, slots=0) == [Action.DRAIN]


def test_a_waiter_leaves_the_line() -> None:
    """There is no word for that but the connection's end; it registers again as one that wants nothing."""
    state = LockState()
    state.connect()
    state.handle(Event.WANTED)
    assert state.kinds(Event.LOST) == [Action.LOSE_GATE, Action.DISCONNECT]
    assert [done.kind for done in state.pass_time()] == [Action.CONNECT]
    assert state.handle(Event.CONNECTED) == [Done(Action.SEND_REGISTER, state=wire.State.IDLE)]


def test_a_grant_that_comes_all_the_same() -> None:
    """It goes back at once, and the gate does not open."""
    state = LockState()
    state.connect()
    state.handle(Event.LOST)
    assert state.handle(Event.LOCK_OK, grant=9) == [Done(Action.SEND_LOCK_RELEASED, grant=9), Done(Action.LOSE_GATE)]
    assert state.lock is Lock.IDLE


@pytest.mark.parametrize("on_missing", OnMissing)
def test_the_scheduler_is_gone(on_missing: OnMissing) -> None:
    """What is drained is not held again, and the next scheduler hears of a client that wants nothing."""
    state = LockState(on_missing)
    state.connect()
    state.handle(Event.WANTED)
    state.handle(Event.LOCK_OK, grant=5)
    lose(state)
    assert state.kinds(Event.LOST) == [Action.DRAIN]
    assert Action.OPEN_GATE not in state.kinds(Event.DRAINED, waiting=True)
    state.pass_time()
    assert state.handle(Event.CONNECTED) == [Done(Action.SEND_REGISTER, state=wire.State.IDLE)]
    assert state.handle(Event.SCHED_ON, epoch=8) == []


def test_a_drain_that_ends_while_it_registers() -> None:
    """It has said that it holds, so it gives that back."""
    state = holding(grant=5)
    lose(state)
    state.pass_time()
    state.handle(Event.CONNECTED)
    assert state.kinds(Event.LOST) == [Action.DRAIN]
    assert state.handle(Event.DRAINED) == []
    assert state.handle(Event.SCHED_ON, epoch=8) == [Done(Action.SEND_LOCK_RELEASED, grant=5), Done(Action.LOSE_GATE)]


@pytest.mark.parametrize("on_missing", OnMissing)
def test_it_is_sent_away_for_good(on_missing: OnMissing) -> None:
    """It tries no other connection, says it once, and its calls fail, whatever a missing scheduler would mean."""
    state = LockState(on_missing)
    state.handle(Event.WANTED)
    state.pass_time()
    state.handle(Event.CONNECTED)
    kinds = state.kinds(Event.REFUSED, final=True)
    assert kinds == [Action.DISCONNECT, Action.WARN_REFUSED, Action.LOSE_GATE]
    assert state.handle(Event.WANTED) == []
    assert state.handle(Event.LOST) == []
    assert (state.link, state.lock, state.deadline) == (Link.DOWN, Lock.IDLE, NEVER)


def test_one_that_holds_is_sent_away_for_good() -> None:
    """It leaves the device first; a drain that was put off is tried again without a scheduler."""
    state = holding(grant=5)
    lose(state)
    state.pass_time()
    state.handle(Event.CONNECTED)
    assert state.kinds(Event.REFUSED, final=True) == [Action.DISCONNECT, Action.WARN_REFUSED, Action.DRAIN]
    assert state.kinds(Event.PUT_OFF) == [Action.OPEN_GATE]
    assert [done.kind for done in state.pass_time()] == [Action.DRAIN]
    assert state.kinds(Event.DRAINED, waiting=True) == [Action.SEND_LOCK_RELEASED, Action.LOSE_GATE]
    assert (state.lock, state.deadline) == (Lock.IDLE, NEVER)

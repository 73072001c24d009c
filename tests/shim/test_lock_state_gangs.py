"""What a client does that is one of a gang: transcripts of the state of its lock."""

from __future__ import annotations

import pytest

from tests.shim.lock_state_model import Action, Done, Event, IllegalEventError, Link, Lock, LockState

THRESHOLD = 20_000


def holding_in_gang() -> LockState:
    """A member that holds the lock while others wait for it, and has been idle for one look."""
    state = LockState()
    state.connect()
    assert state.handle(Event.GANG, slots=2) == []
    state.handle(Event.WANTED)
    state.handle(Event.LOCK_OK, grant=1)
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=THRESHOLD)
    state.pass_time()
    assert state.handle(Event.LOOKED, submissions=10, completed=True) == []
    return state


def look(state: LockState, submissions: int = 10, completed: bool = True) -> list[Done]:
    """The next look, and what follows from it."""
    assert state.pass_time() == [Done(Action.LOOK)]
    return state.handle(Event.LOOKED, submissions=submissions, completed=completed)


def test_an_idle_member_says_so_and_holds() -> None:
    """Another member may need what it submits next: it says at each look that it is idle, and drains when told."""
    state = holding_in_gang()
    for _ in range(3):
        assert look(state) == [Done(Action.SEND_IDLE)]
        assert state.lock is Lock.HOLDING
        assert state.deadline == state.now + THRESHOLD
    assert state.kinds(Event.DROP_LOCK, grant=1) == [Action.DRAIN]


@pytest.mark.parametrize(("completed", "submissions"), [(False, 10), (True, 11)])
def test_a_busy_member_says_nothing(completed: bool, submissions: int) -> None:
    """Work that has not completed, or that came since the last look, is no idleness."""
    state = holding_in_gang()
    look(state, completed=completed)
    assert look(state, submissions) == []


def test_only_while_others_wait() -> None:
    """Nobody looks when nobody waits."""
    state = holding_in_gang()
    state.pass_time()
    state.handle(Event.WAITERS, waiters=0)
    assert state.handle(Event.LOOKED, submissions=10, completed=True) == []


def test_gives_way_by_itself_when_it_is_in_no_gang_any_more() -> None:
    """No slots: it is a client like others."""
    state = holding_in_gang()
    assert state.handle(Event.GANG, slots=0) == []
    assert look(state) == [Done(Action.DRAIN)]


def test_the_next_scheduler_says_anew_who_belongs_together() -> None:
    """What an earlier one said holds until another one has registered the client."""
    state = holding_in_gang()
    state.handle(Event.DISCONNECTED)
    assert state.raw.in_gang
    state.connect(epoch=8)
    assert not state.raw.in_gang


@pytest.mark.parametrize("link", [Link.DOWN, Link.CONNECTING, Link.REGISTERING])
def test_only_from_a_scheduler_that_knows_us(link: Link) -> None:
    """GANG comes after SCHED_ON."""
    state = LockState()
    state.raw.link = link
    with pytest.raises(IllegalEventError):
        state.handle(Event.GANG, slots=2)


def test_a_member_that_was_put_off_drains_again() -> None:
    """As any other client."""
    state = holding_in_gang()
    state.handle(Event.DROP_LOCK, grant=1)
    assert state.handle(Event.PUT_OFF)[-1] == Done(Action.OPEN_GATE)
    state.raw.gives_way = False
    assert state.pass_time() == [Done(Action.DRAIN)]

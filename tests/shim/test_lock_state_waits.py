"""When those who wait are told why: transcripts of the state of a lock."""

from __future__ import annotations

from nvshare.protocol import wire
from tests.shim.lock_state_model import NEVER, PATIENCE, Action, Done, Event, Lock, LockState
from tests.shim.test_lock_state import holding, lose

ASK = [Done(Action.SEND_ASK_REASON)]
TELL = [Done(Action.WARN_WAITING)]


def waiting(level: int = wire.LEVEL) -> LockState:
    """A client that has asked for the lock."""
    state = LockState()
    state.connect()
    state.raw.level = level
    state.handle(Event.WANTED)
    assert state.deadline == state.now + PATIENCE
    return state


def test_asks_the_scheduler_why() -> None:
    """Who waits for a turn is told what the scheduler answers, once a wait."""
    state = waiting()
    assert state.pass_time() == ASK
    assert state.handle(Event.REASON) == TELL
    assert state.deadline == NEVER
    state.handle(Event.LOCK_OK, grant=1)
    state.handle(Event.DROP_LOCK, grant=1)
    state.handle(Event.DRAINED, waiting=True)
    assert state.lock is Lock.WAITING
    assert state.pass_time() == ASK, "the next wait"


def test_answer_that_comes_too_late() -> None:
    """Who has the lock by then is told nothing; an answer that nobody asked for neither."""
    state = waiting()
    state.pass_time()
    state.handle(Event.LOCK_OK, grant=1)
    assert state.handle(Event.REASON) == []
    assert state.handle(Event.REASON) == []


def test_short_waits_are_no_news() -> None:
    """Nothing is said of a wait that is over before the time."""
    state = waiting()
    state.now += PATIENCE - 1
    assert state.handle(Event.TIMER) == []
    state.handle(Event.LOCK_OK, grant=1)
    assert state.deadline == NEVER


def test_scheduler_that_gives_no_reasons() -> None:
    """Without the frames for it, the time alone is told."""
    assert waiting(level=0).pass_time() == TELL


def test_no_scheduler() -> None:
    """Who waits for a scheduler is told so."""
    state = LockState()
    state.handle(Event.WANTED)
    begin = state.now
    while (done := state.pass_time()) != TELL:
        assert [each.kind for each in done] == [Action.CONNECT]
        state.handle(Event.CONNECT_FAILED)
    assert state.now == begin + PATIENCE


def test_scheduler_that_dies_before_it_answers() -> None:
    """The next one is asked."""
    state = waiting()
    state.pass_time()
    lose(state)
    state.connect()
    state.raw.level = 1
    assert state.pass_time() == ASK


def test_own_drain() -> None:
    """Who waits because this client gives the lock back is told so."""
    state = holding(grant=3)
    state.handle(Event.DROP_LOCK, grant=3)
    assert state.deadline == NEVER
    state.handle(Event.WANTED)
    assert state.pass_time() == TELL
    state.handle(Event.WANTED)
    assert state.deadline == NEVER, "once"

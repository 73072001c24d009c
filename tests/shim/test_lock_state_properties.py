"""Whatever happens in whatever order, the client keeps its promises."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from nvshare.protocol import wire
from tests.c_parts import lib
from tests.shim.lock_state_model import NEVER, Action, Done, Event, IllegalEventError, Link, Lock, LockState, OnMissing

LOSSES = (Event.DISCONNECTED, Event.BAD_FRAME, Event.REFUSED, Event.CONNECT_FAILED)


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a history; which one, the state decides too, so that histories get far."""

    pick: int
    elapsed: int
    grant: int
    waiters: int
    submissions: int
    flag: bool

    def choose(self, state: LockState) -> Event:
        """Mostly an event that can happen, seldom a loss, sometimes anything."""
        if self.pick % 8 == 0:
            return list(Event)[self.pick // 8 % len(Event)]
        rare = {**dict.fromkeys(LOSSES, 5), Event.LOST: 61}
        possible = [kind for kind in Event if is_possible(state, kind) and self.pick % rare.get(kind, 1) == 0]
        return possible[self.pick % len(possible)]

    @property
    def fields(self) -> dict[str, int]:
        """All that an event can say."""
        return {
            "grant": self.grant,
            "waiters": self.waiters,
            "idle_microseconds": 20_000,
            "submissions": self.submissions,
            "completed": self.flag,
            "waiting": self.flag,
            "epoch": 1 + self.grant,
            "level": self.waiters,
            "final": self.pick % 29 == 0,
        }


def history_of(seed: int, length: int) -> list[Step]:
    """A long history; a list of hypothesis' own would seldom be long enough to get anywhere."""
    dice = Random(seed)
    return [
        Step(
            pick=dice.randrange(1 << 20),
            elapsed=dice.randrange(300_000),
            grant=dice.randrange(3),
            waiters=dice.randrange(3),
            submissions=dice.randrange(2),
            flag=dice.random() < 0.5,
        )
        for _ in range(length)
    ]


HISTORIES = st.builds(history_of, st.integers(0, 1 << 32), st.integers(1, 200))
CLAIMS = {
    Lock.IDLE: wire.State.IDLE,
    Lock.WAITING: wire.State.WAITING,
    Lock.HOLDING: wire.State.HOLDING,
    Lock.DRAINING: wire.State.DRAINING,
}
HOLDERS = (wire.State.HOLDING, wire.State.DRAINING)


@dataclass(slots=True)
class World:
    """What the gate, the connection and the scheduler make of the actions."""

    gate: str = "closed"
    connected: bool = False
    told: wire.State | None = None
    """How the scheduler sees this client; None: not at all."""
    epoch: int = 0
    warnings: list[Action] = field(default_factory=list)

    def carry_out(self, state: LockState, done: Done) -> None:
        """Fails when an action makes no sense where it comes."""
        match done.kind:
            case Action.CONNECT:
                assert not self.connected
            case Action.DISCONNECT:
                self.connected, self.told = False, None
            case Action.SEND_REGISTER:
                assert self.connected
                assert done.state == CLAIMS[state.lock]
                assert (done.state == wire.State.HOLDING) == (self.gate == "open")
                assert done.grant == 0 or done.state in HOLDERS
                self.told = wire.State(done.state)
            case Action.SEND_REQ_LOCK:
                assert self.told is wire.State.IDLE
                assert self.gate == "closed"
                self.told = wire.State.WAITING
            case Action.SEND_LOCK_RELEASED:
                # Of a lost device it is given back within this process alone when nobody hears it.
                assert self.told in HOLDERS or (state.raw.lost and not self.connected)
                assert self.gate in ("closed", "lost")
                self.told = wire.State.IDLE if self.connected else None
            case Action.SEND_DRAIN_REPORT:
                assert state.link is Link.UP
                assert state.raw.level >= 1
                assert self.told in HOLDERS
                assert (done.state == wire.Drain.PUT_OFF) == (self.gate == "open")
            case Action.OPEN_GATE:
                assert self.gate == "closed"
                self.gate = "open"
            case Action.DRAIN:
                assert self.gate == "open"
                self.gate = "draining"
            case Action.FAIL_GATE:
                assert self.gate == "closed"
                self.gate = "failing"
            case Action.CLOSE_GATE:
                assert self.gate == "failing"
                self.gate = "closed"
            case Action.LOSE_GATE:
                assert state.raw.lost
                assert self.gate != "open"
                self.gate = "lost"
            case Action.SEND_ASK_REASON:
                assert self.told is wire.State.WAITING
                assert state.raw.level >= 1
            case Action.LOOK:
                assert self.gate == "open"
                assert self.told in HOLDERS
            case _:
                self.warnings.append(done.kind)

    def before(self, kind: Event) -> None:
        """What the event itself says about the world."""
        if kind is Event.CONNECTED:
            self.connected = True
        elif kind is Event.LOCK_OK:
            self.told = wire.State.HOLDING
        elif kind is Event.WOKE:
            # The scheduler took the request back when it slept.
            self.told = wire.State.IDLE
        elif kind in (Event.DRAINED, Event.PUT_OFF):
            self.gate = "closed"

    def check(self, state: LockState) -> None:
        """The state and the world agree."""
        expected = {
            Lock.IDLE: ("lost",) if state.raw.lost else ("closed", "failing"),
            Lock.WAITING: ("closed",),
            Lock.HOLDING: ("open",),
            Lock.DRAINING: ("closed",) if state.raw.drained else ("draining",),
        }
        assert self.gate in expected[state.lock]
        assert self.connected == (state.link in (Link.REGISTERING, Link.UP))
        if state.link is Link.UP:
            holds = state.lock in (Lock.HOLDING, Lock.DRAINING)
            assert self.told in HOLDERS if holds else self.told == CLAIMS[state.lock]
        if self.gate == "failing":
            assert state.on_missing is OnMissing.FAIL


def is_possible(state: LockState, kind: Event) -> bool:
    """Whether the event would be accepted, tried on a copy."""
    copy = LockState(state.on_missing)
    copy.raw[0] = state.raw[0]
    copy.now = state.now
    try:
        copy.handle(kind)
    except IllegalEventError:
        return False
    return True


@settings(max_examples=300)
@given(HISTORIES, st.sampled_from(OnMissing), st.integers(1, 1 << 22))
def test_promises(history: list[Step], on_missing: OnMissing, pid: int) -> None:
    """Invariants of gate, connection and lock.

    The gate is open only while the lock is held (or nobody is there to give it), the scheduler is told nothing but the
    truth, nothing is released that is not held, and an illegal event leaves no trace.
    """
    state, world = LockState(on_missing, pid), World()
    for step in history:
        state.now += step.elapsed
        kind, before = step.choose(state), state.image()
        try:
            actions = state.handle(kind, **step.fields)
        except IllegalEventError:
            assert state.image() == before
            continue
        world.before(kind)
        assert len(actions) <= lib.NVS_LOCK_MAX_ACTIONS
        for done in actions:
            world.carry_out(state, done)
        world.check(state)


@settings(max_examples=200)
@given(HISTORIES, st.sampled_from(OnMissing))
def test_always_on_the_way_back(history: list[Step], on_missing: OnMissing) -> None:
    """Whatever happened, a connection is tried again within seconds, unless there is one.

    A client that is registered, holds nothing and waits for nothing is never woken; one that waits is once.
    """
    state = LockState(on_missing)
    for step in history:
        state.now += step.elapsed
        with contextlib.suppress(IllegalEventError):
            state.handle(step.choose(state), **step.fields)
        if state.raw.sent_away:
            assert (state.link, state.raw.retry_at) == (Link.DOWN, NEVER)
            assert state.lock is not Lock.HOLDING or state.deadline <= state.now + 30_000_000
        elif state.link is Link.DOWN:
            assert state.deadline <= state.now + 10_000_000
        if state.link is Link.UP and state.lock is Lock.IDLE:
            assert state.deadline == NEVER
        if state.link is Link.UP and state.lock in (Lock.WAITING, Lock.DRAINING):
            assert state.deadline == state.raw.tell_at


@settings(max_examples=100)
@given(HISTORIES)
def test_same_events_same_actions(history: list[Step]) -> None:
    """The state is a function of what it was told."""

    def run() -> tuple[list[list[Done]], bytes]:
        state, answers = LockState(), []
        for step in history:
            state.now += step.elapsed
            with contextlib.suppress(IllegalEventError):
                answers.append(state.handle(step.choose(state), **step.fields))
        return answers, state.image()

    assert run() == run()


def test_histories_get_everywhere() -> None:
    """The histories above reach every state that there is."""
    reached = set()

    @settings(max_examples=200, database=None, derandomize=True)
    @given(HISTORIES)
    def walk(history: list[Step]) -> None:
        state = LockState()
        for step in history:
            state.now += step.elapsed
            with contextlib.suppress(IllegalEventError):
                state.handle(step.choose(state), **step.fields)
            reached.add((state.link, state.lock))

    walk()
    assert reached == {(link, lock) for link in Link for lock in Lock}

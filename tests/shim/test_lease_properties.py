"""Whatever happens in whatever order, the lease keeps its promises."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from nvshare.protocol import wire
from nvshare.shim._core import lib
from tests.shim.lease_model import NEVER, Action, Done, Event, IllegalEventError, Lease, Link, Lock, OnMissing

GRANTS = st.integers(0, 3)
EVENTS = st.one_of(
    st.sampled_from([(kind, {}) for kind in Event if kind not in (Event.LOCK_OK, Event.DROP_LOCK)]),
    st.builds(lambda kind, grant: (kind, {"grant": grant}), st.sampled_from([Event.LOCK_OK, Event.DROP_LOCK]), GRANTS),
    st.builds(
        lambda waiters, idle: (Event.WAITERS, {"waiters": waiters, "idle_microseconds": idle}),
        st.integers(0, 3),
        st.integers(0, 50_000),
    ),
    st.builds(lambda waiting: (Event.DRAINED, {"waiting": waiting}), st.booleans()),
    st.builds(
        lambda settled, submissions: (Event.LOOKED, {"settled": settled, "submissions": submissions}),
        st.booleans(),
        st.integers(0, 2),
    ),
)
HISTORIES = st.lists(st.tuples(EVENTS, st.integers(0, 300_000)), max_size=120)
CLAIMS = {Lock.IDLE: wire.State.IDLE, Lock.WAITING: wire.State.WAITING, Lock.HOLDING: wire.State.HOLDING}


@dataclass(slots=True)
class World:
    """What the gate, the connection and the scheduler make of the actions."""

    gate: str = "closed"
    connected: bool = False
    told: wire.State | None = None
    """How the scheduler sees this client; None: not at all."""
    epoch: int = 0
    warnings: list[Action] = field(default_factory=list)

    def carry_out(self, lease: Lease, done: Done) -> None:
        """Fails when an action makes no sense where it comes."""
        match done.kind:
            case Action.CONNECT:
                assert not self.connected
            case Action.DISCONNECT:
                self.connected, self.told = False, None
            case Action.SEND_REGISTER:
                assert self.connected
                assert done.state == CLAIMS[lease.lock]
                assert (done.state == wire.State.HOLDING) == (self.gate == "open")
                assert done.grant == 0 or done.state == wire.State.HOLDING
                self.told = wire.State(done.state)
            case Action.SEND_REQ_LOCK:
                assert self.told is wire.State.IDLE
                assert self.gate == "closed"
                self.told = wire.State.WAITING
            case Action.SEND_LOCK_RELEASED:
                assert self.told is wire.State.HOLDING
                assert self.gate == "closed"
                self.told = wire.State.IDLE
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
            case Action.LOOK:
                assert self.gate == "open"
            case _:
                self.warnings.append(done.kind)

    def before(self, kind: Event) -> None:
        """What the event itself says about the world."""
        if kind is Event.CONNECTED:
            self.connected = True
        elif kind is Event.LOCK_OK:
            self.told = wire.State.HOLDING
        elif kind is Event.DRAINED:
            self.gate = "closed"

    def check(self, lease: Lease) -> None:
        """The lease and the world agree."""
        expected = {
            Lock.IDLE: ("closed", "failing"),
            Lock.WAITING: ("closed",),
            Lock.HOLDING: ("open",),
            Lock.DRAINING: ("draining",),
        }
        assert self.gate in expected[lease.lock]
        assert self.connected == (lease.link in (Link.REGISTERING, Link.UP))
        if lease.link is Link.UP:
            holds = lease.lock in (Lock.HOLDING, Lock.DRAINING)
            assert self.told == (wire.State.HOLDING if holds else CLAIMS[lease.lock])
        if self.gate == "failing":
            assert lease.on_missing is OnMissing.FAIL


def legal(lease: Lease, world: World, kind: Event) -> bool:
    """Whether the event would be accepted, tried on a copy."""
    copy = Lease(lease.on_missing)
    copy.raw[0] = lease.raw[0]
    copy.now = lease.now
    try:
        copy.handle(kind)
    except IllegalEventError:
        return False
    return True


@settings(max_examples=400)
@given(HISTORIES, st.sampled_from(OnMissing), st.integers(1, 1 << 22))
def test_promises(history: list[tuple[tuple[Event, dict[str, int]], int]], on_missing: OnMissing, pid: int) -> None:
    """The gate is open only while the lock is held (or nobody is there to give it), the scheduler is never told anything
    else than the truth, nothing is released that is not held, and an illegal event leaves no trace."""
    lease, world = Lease(on_missing, pid), World()
    for (kind, fields), elapsed in history:
        lease.now += elapsed
        before = lease.image()
        fits = legal(lease, world, kind)
        if fits:
            world.before(kind)
        try:
            actions = lease.handle(kind, **fields)
        except IllegalEventError:
            assert lease.image() == before
            continue
        assert len(actions) <= lib.NVS_LEASE_MAX_ACTIONS
        for done in actions:
            world.carry_out(lease, done)
        world.check(lease)


@settings(max_examples=200)
@given(HISTORIES, st.sampled_from(OnMissing))
def test_always_on_the_way_back(history: list[tuple[tuple[Event, dict[str, int]], int]], on_missing: OnMissing) -> None:
    """After anything at all, a connection is tried again within seconds, unless there is one or a drain goes on."""
    lease = Lease(on_missing)
    for (kind, fields), elapsed in history:
        lease.now += elapsed
        try:
            lease.handle(kind, **fields)
        except IllegalEventError:
            continue
        if lease.link is Link.DOWN and lease.lock is not Lock.DRAINING:
            assert lease.deadline <= lease.now + 10_000_000
        if lease.link is Link.UP and lease.lock is not Lock.HOLDING:
            assert lease.deadline == NEVER


@settings(max_examples=100)
@given(HISTORIES)
def test_same_events_same_actions(history: list[tuple[tuple[Event, dict[str, int]], int]]) -> None:
    """The lease is a function of what it was told."""
    first, second = Lease(), Lease()
    for (kind, fields), elapsed in history:
        answers = []
        for lease in (first, second):
            lease.now += elapsed
            try:
                answers.append(lease.handle(kind, **fields))
            except IllegalEventError:
                answers.append([])
        assert answers[0] == answers[1]
    assert first.image() == second.image()

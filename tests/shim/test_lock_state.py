"""What a client does next: transcripts of the state of its lock."""

from __future__ import annotations

import pytest

from nvshare.protocol import wire
from tests.c_parts import ffi, lib
from tests.shim.lock_state_model import NEVER, Action, Done, Event, IllegalEventError, Link, Lock, LockState, OnMissing

REGISTER_IDLE = Done(Action.SEND_REGISTER, wire.State.IDLE)
REGISTER_WAITING = Done(Action.SEND_REGISTER, wire.State.WAITING)
MILLISECOND = 1_000


def holding(grant: int = 3, on_missing: OnMissing = OnMissing.WAIT) -> LockState:
    """A client that got the lock in the usual way."""
    state = LockState(on_missing)
    state.connect()
    assert state.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]
    assert state.kinds(Event.LOCK_OK, grant=grant) == [Action.OPEN_GATE]
    return state


def lose(state: LockState) -> None:
    """The scheduler dies while the client is registered."""
    assert state.kinds(Event.DISCONNECTED) == [Action.DISCONNECT, Action.WARN_LOST]


def reregister(state: LockState) -> Done:
    """What the client says to the next scheduler."""
    assert [done.kind for done in state.pass_time()] == [Action.CONNECT]
    (register,) = state.handle(Event.CONNECTED)
    return register


def test_a_turn() -> None:
    """Registers at once, asks when there is work, drains on DROP_LOCK and then gives the lock back."""
    state = LockState()
    assert state.deadline == state.now
    assert state.kinds(Event.TIMER) == [Action.CONNECT]
    assert state.handle(Event.CONNECTED) == [REGISTER_IDLE]
    assert state.handle(Event.SCHED_ON, epoch=7) == []
    assert state.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]
    assert state.kinds(Event.LOCK_OK, grant=3) == [Action.OPEN_GATE]
    assert state.kinds(Event.DROP_LOCK, grant=3) == [Action.DRAIN]
    assert state.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=3)]
    assert (state.link, state.lock, state.deadline) == (Link.UP, Lock.IDLE, NEVER)


def test_asks_once() -> None:
    """However many submissions find the gate closed, one REQ_LOCK is sent."""
    state = LockState()
    state.connect()
    assert state.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]
    assert state.kinds(Event.WANTED) == []
    state.handle(Event.LOCK_OK, grant=1)
    assert state.kinds(Event.WANTED) == []


def test_work_before_the_scheduler_knows_us() -> None:
    """Work that comes before REGISTER is told in it; work that comes during it is asked for after SCHED_ON."""
    early = LockState()
    assert early.handle(Event.WANTED) == []
    assert reregister(early) == REGISTER_WAITING
    assert early.handle(Event.SCHED_ON, epoch=1) == []

    late = LockState()
    assert reregister(late) == REGISTER_IDLE
    assert late.handle(Event.WANTED) == []
    assert late.kinds(Event.SCHED_ON, epoch=1) == [Action.SEND_REQ_LOCK]


def test_asks_again_right_after_the_drain() -> None:
    """Threads that wait when the drain ends are a new request, behind LOCK_RELEASED."""
    state = holding(grant=5)
    assert state.kinds(Event.DROP_LOCK, grant=5) == [Action.DRAIN]
    assert state.handle(Event.DRAINED, waiting=True) == [
        Done(Action.SEND_LOCK_RELEASED, grant=5),
        Done(Action.SEND_REQ_LOCK),
    ]
    assert state.lock is Lock.WAITING


def test_a_wish_that_the_drain_fulfilled_is_no_request() -> None:
    """Whoever asked during the drain and waits no more was let through by it."""
    state = holding(grant=5)
    state.handle(Event.DROP_LOCK, grant=5)
    assert state.handle(Event.WANTED) == []
    assert state.handle(Event.DRAINED, waiting=False) == [Done(Action.SEND_LOCK_RELEASED, grant=5)]
    assert state.lock is Lock.IDLE


def test_old_drop_lock_is_ignored() -> None:
    """A DROP_LOCK that crossed with our LOCK_RELEASED, or names another grant, changes nothing."""
    state = holding(grant=5)
    assert state.handle(Event.DROP_LOCK, grant=4) == []
    assert state.lock is Lock.HOLDING
    state.handle(Event.DROP_LOCK, grant=5)
    state.handle(Event.DRAINED)
    before = state.image()
    assert state.handle(Event.DROP_LOCK, grant=5) == []
    assert state.image() == before


def test_gives_way_when_idle() -> None:
    """With waiters, the holder looks every threshold, and gives way when nothing ran or came between two looks."""
    state = holding(grant=2)
    assert state.deadline == NEVER
    assert state.handle(Event.WAITERS, waiters=2, idle_microseconds=20 * MILLISECOND) == []
    assert state.pass_time() == [Done(Action.LOOK)]
    assert state.deadline == NEVER, "one look at a time"
    assert state.handle(Event.LOOKED, submissions=10, completed=True) == []
    assert state.deadline == state.now + 20 * MILLISECOND
    assert state.pass_time() == [Done(Action.LOOK)]
    assert state.handle(Event.LOOKED, submissions=10, completed=True) == [Done(Action.DRAIN)]
    assert state.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=2)]


@pytest.mark.parametrize(("completed", "submissions"), [(False, 10), (True, 11)])
def test_busy_holder_keeps_the_lock(completed: bool, submissions: int) -> None:
    """Work that has not completed, or that came since the last look, is no idleness."""
    state = holding()
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    state.pass_time()
    state.handle(Event.LOOKED, submissions=10, completed=completed)
    state.pass_time()
    assert state.handle(Event.LOOKED, submissions=submissions, completed=True) == []
    assert state.lock is Lock.HOLDING


def test_nobody_waits_nobody_looks() -> None:
    """Without waiters, or when they are gone again, a holder's thread has nothing to wake up for."""
    state = holding()
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    assert state.deadline == state.now
    state.handle(Event.WAITERS, waiters=0)
    assert state.deadline == NEVER
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    state.pass_time()
    state.handle(Event.WAITERS, waiters=0)
    assert state.handle(Event.LOOKED, submissions=1, completed=True) == []
    assert state.deadline == NEVER


def test_idleness_counts_from_when_somebody_waits() -> None:
    """A look from an earlier wait says nothing about the next one."""
    state = holding()
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    state.pass_time()
    state.handle(Event.LOOKED, submissions=10, completed=True)
    state.handle(Event.WAITERS, waiters=0)
    state.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    state.pass_time()
    assert state.handle(Event.LOOKED, submissions=10, completed=True) == []


def test_holder_holds_when_the_scheduler_dies() -> None:
    """A holder stays one, and tells the next scheduler the grant and the epoch that it had."""
    state = holding(grant=9)
    lose(state)
    assert state.lock is Lock.HOLDING
    assert reregister(state) == Done(Action.SEND_REGISTER, wire.State.HOLDING, grant=9)
    assert state.raw.epoch == 7
    assert state.handle(Event.SCHED_ON, epoch=8) == []
    assert state.raw.epoch == 8
    assert state.kinds(Event.DROP_LOCK, grant=9) == [Action.DRAIN]


def test_next_scheduler_may_number_the_grant_anew() -> None:
    """After SCHED_ON the grant is what the new scheduler calls it, in LOCK_OK or DROP_LOCK; later ones must match."""
    state = holding(grant=9)
    lose(state)
    state.connect(epoch=8)
    assert state.handle(Event.LOCK_OK, grant=1) == []
    with pytest.raises(IllegalEventError):
        state.handle(Event.LOCK_OK, grant=2)
    assert state.handle(Event.DROP_LOCK, grant=9) == []
    assert state.kinds(Event.DROP_LOCK, grant=1) == [Action.DRAIN]
    assert state.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=1)]


def test_waiter_waits_when_the_scheduler_dies() -> None:
    """A waiter stays one and registers as such; it does not ask twice."""
    state = LockState()
    state.connect()
    state.handle(Event.WANTED)
    lose(state)
    assert state.lock is Lock.WAITING
    assert reregister(state) == REGISTER_WAITING
    assert state.handle(Event.SCHED_ON, epoch=8) == []


def test_back_off() -> None:
    """Attempts are 50 ms apart at first, then twice as far each time, up to a second, up to a quarter sooner."""
    state = LockState()
    delays = []
    for _ in range(8):
        state.pass_time()
        state.handle(Event.CONNECT_FAILED)
        delays.append(state.deadline - state.now)
    expected = [50, 100, 200, 400, 800, 1000, 1000, 1000]
    for delay, most in zip(delays, expected, strict=True):
        assert 0.75 * most <= delay / MILLISECOND <= most


def test_back_off_differs_between_processes() -> None:
    """Clients of a dead scheduler don't come back all at once, and each does the same every time."""
    delays = set()
    for pid in range(100, 164):
        state = LockState(pid=pid)
        state.pass_time()
        state.handle(Event.CONNECT_FAILED)
        delays.add(state.deadline - state.now)
    assert len(delays) > 48


def test_quick_return_after_a_long_life() -> None:
    """A connection that was lost is tried again soon, however often the first one failed."""
    state = LockState()
    for _ in range(6):
        state.pass_time()
        state.handle(Event.CONNECT_FAILED)
    state.connect()
    lose(state)
    assert state.deadline - state.now <= 50 * MILLISECOND


def test_missing_scheduler_wait() -> None:
    """Waiting is said once, and only when somebody has to wait."""
    state = LockState(OnMissing.WAIT)
    state.pass_time()
    assert state.handle(Event.CONNECT_FAILED) == []
    assert state.kinds(Event.WANTED) == [Action.WARN_MISSING]
    state.pass_time()
    assert state.handle(Event.CONNECT_FAILED) == []
    assert state.lock is Lock.WAITING


@pytest.mark.parametrize("wanted_first", [True, False])
def test_missing_scheduler_run(wanted_first: bool) -> None:
    """Work runs without a lock, and the scheduler that comes later is told the truth: holding, without a grant."""
    state = LockState(OnMissing.RUN)
    if wanted_first:
        state.handle(Event.WANTED)
    state.pass_time()
    done = state.kinds(Event.CONNECT_FAILED)
    if not wanted_first:
        assert done == []
        done = state.kinds(Event.WANTED)
    assert done == [Action.WARN_MISSING, Action.OPEN_GATE]
    assert reregister(state) == Done(Action.SEND_REGISTER, wire.State.HOLDING, grant=0)
    state.handle(Event.SCHED_ON, epoch=1)
    assert state.kinds(Event.DROP_LOCK, grant=0) == [Action.DRAIN]
    assert state.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=0)]


@pytest.mark.parametrize("on_missing", [OnMissing.WAIT, OnMissing.RUN])
def test_missing_scheduler_that_was_told_that_the_client_idles(on_missing: OnMissing) -> None:
    """Who wants the GPU before the answer waits for that: the scheduler would not know of a holder. A loss decides."""
    for answers in (True, False):
        state = LockState(on_missing)
        state.pass_time()
        state.handle(Event.CONNECT_FAILED)
        assert reregister(state) == Done(Action.SEND_REGISTER, wire.State.IDLE)
        assert state.handle(Event.WANTED) == []
        if answers:
            assert state.kinds(Event.SCHED_ON, epoch=1) == [Action.SEND_REQ_LOCK]
            continue
        done = state.kinds(Event.DISCONNECTED)
        runs = [Action.OPEN_GATE] if on_missing is OnMissing.RUN else []
        assert done == [Action.DISCONNECT, Action.WARN_MISSING, *runs]


def test_missing_scheduler_run_only_at_the_start() -> None:
    """Once a scheduler was there, its clients wait for the next one: others may hold."""
    state = LockState(OnMissing.RUN)
    state.connect()
    lose(state)
    assert state.handle(Event.WANTED) == []
    state.pass_time()
    assert state.handle(Event.CONNECT_FAILED) == []
    assert state.lock is Lock.WAITING


def test_missing_scheduler_fail() -> None:
    """Submissions fail until a scheduler comes; then the gate is closed as usual."""
    state = LockState(OnMissing.FAIL)
    state.handle(Event.WANTED)
    state.pass_time()
    assert state.kinds(Event.CONNECT_FAILED) == [Action.WARN_MISSING, Action.FAIL_GATE]
    assert state.handle(Event.WANTED) == []
    state.pass_time()
    assert state.handle(Event.CONNECT_FAILED) == []
    assert [done.kind for done in state.connect()] == [Action.CLOSE_GATE]
    assert state.lock is Lock.IDLE
    assert state.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]


def test_refused() -> None:
    """A refusal is said once and tried again after a long time, as with a scheduler that is missing."""
    state = LockState(OnMissing.RUN)
    state.handle(Event.WANTED)
    reregister(state)
    assert state.kinds(Event.REFUSED) == [Action.DISCONNECT, Action.WARN_REFUSED, Action.OPEN_GATE]
    assert state.deadline - state.now >= 7_500 * MILLISECOND
    reregister(state)
    assert state.kinds(Event.REFUSED) == [Action.DISCONNECT]


@pytest.mark.parametrize("up", [True, False])
def test_bad_frame(up: bool) -> None:
    """A scheduler that sends nonsense is left, said once, and tried again ever later, even if it registers us."""
    state = LockState()
    delays = []
    warnings = 0
    for _ in range(6):
        reregister(state)
        if up:
            state.handle(Event.SCHED_ON, epoch=1)
        done = state.kinds(Event.BAD_FRAME)
        assert done[0] is Action.DISCONNECT
        warnings += done.count(Action.WARN_BAD_FRAME)
        delays.append(state.deadline - state.now)
    assert warnings == 1
    assert delays[-1] >= 750 * MILLISECOND


def test_illegal_events_change_nothing() -> None:
    """What cannot happen is refused, whatever the state, and leaves no trace."""
    up = LockState()
    up.connect()
    for state, kind in [
        (LockState(), Event.CONNECTED),
        (LockState(), Event.CONNECT_FAILED),
        (LockState(), Event.DISCONNECTED),
        (LockState(), Event.SCHED_ON),
        (LockState(), Event.LOCK_OK),
        (LockState(), Event.DRAINED),
        (up, Event.SCHED_ON),
        (up, Event.REFUSED),
        (up, Event.CONNECTED),
        (holding(), Event.DRAINED),
    ]:
        before = state.image()
        with pytest.raises(IllegalEventError):
            state.handle(kind)
        assert state.image() == before


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (wire.SchedOn(client_id=1, epoch=2), Event.SCHED_ON),
        (wire.LockOk(3), Event.LOCK_OK),
        (wire.DropLock(3), Event.DROP_LOCK),
        (wire.Waiters(1, 20), Event.WAITERS),
        (wire.Refused("no"), Event.REFUSED),
        (wire.Reason("others"), Event.REASON),
        (wire.Gang(1, 3, 4096), Event.GANG),
        (wire.ReqLock(), Event.BAD_FRAME),
        (wire.LockReleased(3), Event.BAD_FRAME),
        (wire.Footprint(3), Event.BAD_FRAME),
        (wire.Register(bytes(16), 1), Event.BAD_FRAME),
    ],
)
def test_meaning_of_frames(frame: wire.Frame, kind: Event) -> None:
    """Only what a scheduler may send means something."""
    raw = ffi.from_buffer("struct nvs_frame *", bytearray(wire.encode(frame)))
    event = lib.nvs_lock_event_of(raw)
    assert Event(event.kind) is kind
    assert (event.grant, event.epoch) == (raw.grant, raw.epoch)
    if isinstance(frame, wire.Gang):
        assert event.slots == frame.slots
    assert (event.waiters, event.idle_microseconds) == (raw.waiters, raw.idle_microseconds)


@pytest.mark.parametrize(("field", "value"), [("magic", 1), ("version", 3), ("type", 0), ("type", 255), ("type", 3)])
def test_frames_that_are_none(field: str, value: int) -> None:
    """Another magic, version or type is a bad frame."""
    raw = ffi.from_buffer("struct nvs_frame *", bytearray(wire.encode(wire.LockOk(1))))
    setattr(raw, field, value)
    assert Event(lib.nvs_lock_event_of(raw).kind) is Event.BAD_FRAME


def test_every_state_and_event_has_a_name() -> None:
    """The debug log can name everything."""
    names = [ffi.string(lib.nvs_link_name(link)) for link in Link]
    names += [ffi.string(lib.nvs_lock_name(lock)) for lock in Lock]
    names += [ffi.string(lib.nvs_lock_event_name(kind)) for kind in Event]
    assert len(set(names)) == len(Link) + len(Lock) + len(Event)
    assert len(Event) == lib.NVS_EVENT_KINDS

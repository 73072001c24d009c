"""What a client does next: transcripts of the lease."""

from __future__ import annotations

import pytest

from nvshare._core import ffi, lib
from nvshare.protocol import wire
from tests.shim.lease_model import NEVER, Action, Done, Event, IllegalEventError, Lease, Link, Lock, OnMissing

REGISTER_IDLE = Done(Action.SEND_REGISTER, wire.State.IDLE)
REGISTER_WAITING = Done(Action.SEND_REGISTER, wire.State.WAITING)
MILLISECOND = 1_000


def holding(grant: int = 3, on_missing: OnMissing = OnMissing.WAIT) -> Lease:
    """A client that got the lock in the usual way."""
    lease = Lease(on_missing)
    lease.connect()
    assert lease.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]
    assert lease.kinds(Event.LOCK_OK, grant=grant) == [Action.OPEN_GATE]
    return lease


def lose(lease: Lease) -> None:
    """The scheduler dies while the client is registered."""
    assert lease.kinds(Event.DISCONNECTED) == [Action.DISCONNECT, Action.WARN_LOST]


def reregister(lease: Lease) -> Done:
    """What the client says to the next scheduler."""
    assert [done.kind for done in lease.pass_time()] == [Action.CONNECT]
    (register,) = lease.handle(Event.CONNECTED)
    return register


def test_a_turn() -> None:
    """Registers at once, asks when there is work, drains on DROP_LOCK and then gives the lock back."""
    lease = Lease()
    assert lease.deadline == lease.now
    assert lease.kinds(Event.TIMER) == [Action.CONNECT]
    assert lease.handle(Event.CONNECTED) == [REGISTER_IDLE]
    assert lease.handle(Event.SCHED_ON, epoch=7) == []
    assert lease.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]
    assert lease.kinds(Event.LOCK_OK, grant=3) == [Action.OPEN_GATE]
    assert lease.kinds(Event.DROP_LOCK, grant=3) == [Action.DRAIN]
    assert lease.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=3)]
    assert (lease.link, lease.lock, lease.deadline) == (Link.UP, Lock.IDLE, NEVER)


def test_asks_once() -> None:
    """However many submissions find the gate closed, one REQ_LOCK is sent."""
    lease = Lease()
    lease.connect()
    assert lease.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]
    assert lease.kinds(Event.WANTED) == []
    lease.handle(Event.LOCK_OK, grant=1)
    assert lease.kinds(Event.WANTED) == []


def test_work_before_the_scheduler_knows_us() -> None:
    """Work that comes before REGISTER is told in it; work that comes during it is asked for after SCHED_ON."""
    early = Lease()
    assert early.handle(Event.WANTED) == []
    assert reregister(early) == REGISTER_WAITING
    assert early.handle(Event.SCHED_ON, epoch=1) == []

    late = Lease()
    assert reregister(late) == REGISTER_IDLE
    assert late.handle(Event.WANTED) == []
    assert late.kinds(Event.SCHED_ON, epoch=1) == [Action.SEND_REQ_LOCK]


@pytest.mark.parametrize("during", [True, False], ids=["asked-while-draining", "waiting-when-drained"])
def test_asks_again_right_after_the_drain(during: bool) -> None:
    """Threads that wait when the drain ends are a new request, behind LOCK_RELEASED."""
    lease = holding(grant=5)
    assert lease.kinds(Event.DROP_LOCK, grant=5) == [Action.DRAIN]
    if during:
        assert lease.handle(Event.WANTED) == []
    assert lease.handle(Event.DRAINED, waiting=not during) == [
        Done(Action.SEND_LOCK_RELEASED, grant=5),
        Done(Action.SEND_REQ_LOCK),
    ]
    assert lease.lock is Lock.WAITING


def test_old_drop_lock_is_ignored() -> None:
    """A DROP_LOCK that crossed with our LOCK_RELEASED, or names another grant, changes nothing."""
    lease = holding(grant=5)
    assert lease.handle(Event.DROP_LOCK, grant=4) == []
    assert lease.lock is Lock.HOLDING
    lease.handle(Event.DROP_LOCK, grant=5)
    lease.handle(Event.DRAINED)
    before = lease.image()
    assert lease.handle(Event.DROP_LOCK, grant=5) == []
    assert lease.image() == before


def test_gives_way_when_idle() -> None:
    """With waiters, the holder looks every threshold, and gives way when nothing ran or came between two looks."""
    lease = holding(grant=2)
    assert lease.deadline == NEVER
    assert lease.handle(Event.WAITERS, waiters=2, idle_microseconds=20 * MILLISECOND) == []
    assert lease.pass_time() == [Done(Action.LOOK)]
    assert lease.deadline == NEVER, "one look at a time"
    assert lease.handle(Event.LOOKED, submissions=10, settled=True) == []
    assert lease.deadline == lease.now + 20 * MILLISECOND
    assert lease.pass_time() == [Done(Action.LOOK)]
    assert lease.handle(Event.LOOKED, submissions=10, settled=True) == [Done(Action.DRAIN)]
    assert lease.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=2)]


@pytest.mark.parametrize(("settled", "submissions"), [(False, 10), (True, 11)])
def test_busy_holder_keeps_the_lock(settled: bool, submissions: int) -> None:
    """Work that has not completed, or that came since the last look, is no idleness."""
    lease = holding()
    lease.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    lease.pass_time()
    lease.handle(Event.LOOKED, submissions=10, settled=settled)
    lease.pass_time()
    assert lease.handle(Event.LOOKED, submissions=submissions, settled=True) == []
    assert lease.lock is Lock.HOLDING


def test_nobody_waits_nobody_looks() -> None:
    """Without waiters, or when they are gone again, a holder's thread has nothing to wake up for."""
    lease = holding()
    lease.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    assert lease.deadline == lease.now
    lease.handle(Event.WAITERS, waiters=0)
    assert lease.deadline == NEVER
    lease.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    lease.pass_time()
    lease.handle(Event.WAITERS, waiters=0)
    assert lease.handle(Event.LOOKED, submissions=1, settled=True) == []
    assert lease.deadline == NEVER


def test_idleness_counts_from_when_somebody_waits() -> None:
    """A look from an earlier wait says nothing about the next one."""
    lease = holding()
    lease.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    lease.pass_time()
    lease.handle(Event.LOOKED, submissions=10, settled=True)
    lease.handle(Event.WAITERS, waiters=0)
    lease.handle(Event.WAITERS, waiters=1, idle_microseconds=MILLISECOND)
    lease.pass_time()
    assert lease.handle(Event.LOOKED, submissions=10, settled=True) == []


def test_holder_holds_when_the_scheduler_dies() -> None:
    """A holder stays one, and tells the next scheduler the grant and the epoch that it had."""
    lease = holding(grant=9)
    lose(lease)
    assert lease.lock is Lock.HOLDING
    assert reregister(lease) == Done(Action.SEND_REGISTER, wire.State.HOLDING, grant=9)
    assert lease.raw.epoch == 7
    assert lease.handle(Event.SCHED_ON, epoch=8) == []
    assert lease.raw.epoch == 8
    assert lease.kinds(Event.DROP_LOCK, grant=9) == [Action.DRAIN]


def test_next_scheduler_may_number_the_grant_anew() -> None:
    """After SCHED_ON the grant is what the new scheduler calls it, in LOCK_OK or DROP_LOCK; later ones must match."""
    lease = holding(grant=9)
    lose(lease)
    lease.connect(epoch=8)
    assert lease.handle(Event.LOCK_OK, grant=1) == []
    with pytest.raises(IllegalEventError):
        lease.handle(Event.LOCK_OK, grant=2)
    assert lease.handle(Event.DROP_LOCK, grant=9) == []
    assert lease.kinds(Event.DROP_LOCK, grant=1) == [Action.DRAIN]
    assert lease.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=1)]


def test_waiter_waits_when_the_scheduler_dies() -> None:
    """A waiter stays one and registers as such; it does not ask twice."""
    lease = Lease()
    lease.connect()
    lease.handle(Event.WANTED)
    lose(lease)
    assert lease.lock is Lock.WAITING
    assert reregister(lease) == REGISTER_WAITING
    assert lease.handle(Event.SCHED_ON, epoch=8) == []


@pytest.mark.parametrize("waiting", [True, False])
def test_holds_again_when_the_scheduler_dies_during_a_drain(waiting: bool) -> None:
    """A drain is finished before the next connection; the lock could not be given back: the client holds it still."""
    lease = holding()
    lease.handle(Event.DROP_LOCK, grant=3)
    lose(lease)
    assert lease.deadline == NEVER
    assert lease.handle(Event.DRAINED, waiting=waiting) == [Done(Action.OPEN_GATE)]
    assert reregister(lease) == Done(Action.SEND_REGISTER, wire.State.HOLDING, 3)


def test_back_off() -> None:
    """Attempts are 50 ms apart at first, then twice as far each time, up to a second, up to a quarter sooner."""
    lease = Lease()
    delays = []
    for _ in range(8):
        lease.pass_time()
        lease.handle(Event.CONNECT_FAILED)
        delays.append(lease.deadline - lease.now)
    expected = [50, 100, 200, 400, 800, 1000, 1000, 1000]
    for delay, most in zip(delays, expected, strict=True):
        assert 0.75 * most <= delay / MILLISECOND <= most


def test_back_off_differs_between_processes() -> None:
    """Clients of a dead scheduler don't come back all at once, and each does the same every time."""
    delays = set()
    for pid in range(100, 164):
        lease = Lease(pid=pid)
        lease.pass_time()
        lease.handle(Event.CONNECT_FAILED)
        delays.add(lease.deadline - lease.now)
    assert len(delays) > 48


def test_quick_return_after_a_long_life() -> None:
    """A connection that was lost is tried again soon, however often the first one failed."""
    lease = Lease()
    for _ in range(6):
        lease.pass_time()
        lease.handle(Event.CONNECT_FAILED)
    lease.connect()
    lose(lease)
    assert lease.deadline - lease.now <= 50 * MILLISECOND


def test_missing_scheduler_wait() -> None:
    """Waiting is said once, and only when somebody has to wait."""
    lease = Lease(OnMissing.WAIT)
    lease.pass_time()
    assert lease.handle(Event.CONNECT_FAILED) == []
    assert lease.kinds(Event.WANTED) == [Action.WARN_MISSING]
    lease.pass_time()
    assert lease.handle(Event.CONNECT_FAILED) == []
    assert lease.lock is Lock.WAITING


@pytest.mark.parametrize("wanted_first", [True, False])
def test_missing_scheduler_run(wanted_first: bool) -> None:
    """Work runs without a lock, and the scheduler that comes later is told the truth: holding, without a grant."""
    lease = Lease(OnMissing.RUN)
    if wanted_first:
        lease.handle(Event.WANTED)
    lease.pass_time()
    done = lease.kinds(Event.CONNECT_FAILED)
    if not wanted_first:
        assert done == []
        done = lease.kinds(Event.WANTED)
    assert done == [Action.WARN_MISSING, Action.OPEN_GATE]
    assert reregister(lease) == Done(Action.SEND_REGISTER, wire.State.HOLDING, grant=0)
    lease.handle(Event.SCHED_ON, epoch=1)
    assert lease.kinds(Event.DROP_LOCK, grant=0) == [Action.DRAIN]
    assert lease.handle(Event.DRAINED) == [Done(Action.SEND_LOCK_RELEASED, grant=0)]


def test_missing_scheduler_run_only_at_the_start() -> None:
    """Once a scheduler was there, its clients wait for the next one: others may hold."""
    lease = Lease(OnMissing.RUN)
    lease.connect()
    lose(lease)
    assert lease.handle(Event.WANTED) == []
    lease.pass_time()
    assert lease.handle(Event.CONNECT_FAILED) == []
    assert lease.lock is Lock.WAITING


def test_missing_scheduler_fail() -> None:
    """Submissions fail until a scheduler comes; then the gate is closed as usual."""
    lease = Lease(OnMissing.FAIL)
    lease.handle(Event.WANTED)
    lease.pass_time()
    assert lease.kinds(Event.CONNECT_FAILED) == [Action.WARN_MISSING, Action.FAIL_GATE]
    assert lease.handle(Event.WANTED) == []
    lease.pass_time()
    assert lease.handle(Event.CONNECT_FAILED) == []
    assert [done.kind for done in lease.connect()] == [Action.CLOSE_GATE]
    assert lease.lock is Lock.IDLE
    assert lease.kinds(Event.WANTED) == [Action.SEND_REQ_LOCK]


def test_refused() -> None:
    """A refusal is said once and tried again after a long time, as with a scheduler that is missing."""
    lease = Lease(OnMissing.RUN)
    lease.handle(Event.WANTED)
    reregister(lease)
    assert lease.kinds(Event.REFUSED) == [Action.DISCONNECT, Action.WARN_REFUSED, Action.OPEN_GATE]
    assert lease.deadline - lease.now >= 7_500 * MILLISECOND
    reregister(lease)
    assert lease.kinds(Event.REFUSED) == [Action.DISCONNECT]


@pytest.mark.parametrize("up", [True, False])
def test_bad_frame(up: bool) -> None:
    """A scheduler that sends nonsense is left, said once, and tried again ever later, even if it registers us."""
    lease = Lease()
    delays = []
    warnings = 0
    for _ in range(6):
        reregister(lease)
        if up:
            lease.handle(Event.SCHED_ON, epoch=1)
        done = lease.kinds(Event.BAD_FRAME)
        assert done[0] is Action.DISCONNECT
        warnings += done.count(Action.WARN_BAD_FRAME)
        delays.append(lease.deadline - lease.now)
    assert warnings == 1
    assert delays[-1] >= 750 * MILLISECOND


def test_illegal_events_change_nothing() -> None:
    """What cannot happen is refused, whatever the state, and leaves no trace."""
    up = Lease()
    up.connect()
    for lease, kind in [
        (Lease(), Event.CONNECTED),
        (Lease(), Event.CONNECT_FAILED),
        (Lease(), Event.DISCONNECTED),
        (Lease(), Event.SCHED_ON),
        (Lease(), Event.LOCK_OK),
        (Lease(), Event.DRAINED),
        (up, Event.SCHED_ON),
        (up, Event.REFUSED),
        (up, Event.CONNECTED),
        (holding(), Event.DRAINED),
    ]:
        before = lease.image()
        with pytest.raises(IllegalEventError):
            lease.handle(kind)
        assert lease.image() == before


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (wire.SchedOn(client_id=1, epoch=2), Event.SCHED_ON),
        (wire.LockOk(3), Event.LOCK_OK),
        (wire.DropLock(3), Event.DROP_LOCK),
        (wire.Waiters(1, 20), Event.WAITERS),
        (wire.Refused("no"), Event.REFUSED),
        (wire.ReqLock(), Event.BAD_FRAME),
        (wire.LockReleased(3), Event.BAD_FRAME),
        (wire.Footprint(3), Event.BAD_FRAME),
        (wire.Register(bytes(16), 1), Event.BAD_FRAME),
    ],
)
def test_meaning_of_frames(frame: wire.Frame, kind: Event) -> None:
    """Only what a scheduler may send means something."""
    raw = ffi.from_buffer("struct nvs_frame *", bytearray(wire.encode(frame)))
    event = lib.nvs_lease_event_of(raw)
    assert Event(event.kind) is kind
    assert (event.grant, event.epoch) == (raw.grant, raw.epoch)
    assert (event.waiters, event.idle_microseconds) == (raw.waiters, raw.idle_microseconds)


@pytest.mark.parametrize(("field", "value"), [("magic", 1), ("version", 3), ("type", 0), ("type", 255), ("type", 3)])
def test_frames_that_are_none(field: str, value: int) -> None:
    """Another magic, version or type is a bad frame."""
    raw = ffi.from_buffer("struct nvs_frame *", bytearray(wire.encode(wire.LockOk(1))))
    setattr(raw, field, value)
    assert Event(lib.nvs_lease_event_of(raw).kind) is Event.BAD_FRAME


def test_every_state_and_event_has_a_name() -> None:
    """The debug log can name everything."""
    names = [ffi.string(lib.nvs_link_name(link)) for link in Link]
    names += [ffi.string(lib.nvs_lock_name(lock)) for lock in Lock]
    names += [ffi.string(lib.nvs_lease_event_name(kind)) for kind in Event]
    assert len(set(names)) == len(Link) + len(Lock) + len(Event)
    assert len(Event) == lib.NVS_EVENT_KINDS

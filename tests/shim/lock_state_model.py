"""The state of lock_state.c as a Python object: events in, actions out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tests.c_parts import ffi, lib

NEVER: int = lib.NVS_LOCK_NEVER
PATIENCE = 10_000_000
"""How long the clients of the tests wait before they say why, in microseconds."""


class Link(IntEnum):
    """enum nvs_link."""

    DOWN = lib.NVS_LINK_DOWN
    CONNECTING = lib.NVS_LINK_CONNECTING
    REGISTERING = lib.NVS_LINK_REGISTERING
    UP = lib.NVS_LINK_UP


class Lock(IntEnum):
    """enum nvs_lock."""

    IDLE = lib.NVS_LOCK_IDLE
    WAITING = lib.NVS_LOCK_WAITING
    HOLDING = lib.NVS_LOCK_HOLDING
    DRAINING = lib.NVS_LOCK_DRAINING


class OnMissing(IntEnum):
    """enum nvs_on_missing."""

    WAIT = lib.NVS_ON_MISSING_WAIT
    RUN = lib.NVS_ON_MISSING_RUN
    FAIL = lib.NVS_ON_MISSING_FAIL


class Event(IntEnum):
    """enum nvs_lock_event_kind."""

    WANTED = lib.NVS_EVENT_WANTED
    CONNECTED = lib.NVS_EVENT_CONNECTED
    CONNECT_FAILED = lib.NVS_EVENT_CONNECT_FAILED
    DISCONNECTED = lib.NVS_EVENT_DISCONNECTED
    BAD_FRAME = lib.NVS_EVENT_BAD_FRAME
    SCHED_ON = lib.NVS_EVENT_SCHED_ON
    LOCK_OK = lib.NVS_EVENT_LOCK_OK
    DROP_LOCK = lib.NVS_EVENT_DROP_LOCK
    WAITERS = lib.NVS_EVENT_WAITERS
    REFUSED = lib.NVS_EVENT_REFUSED
    DRAINED = lib.NVS_EVENT_DRAINED
    STEPPING = lib.NVS_EVENT_STEPPING
    PUT_OFF = lib.NVS_EVENT_PUT_OFF
    REASON = lib.NVS_EVENT_REASON
    LOOKED = lib.NVS_EVENT_LOOKED
    TIMER = lib.NVS_EVENT_TIMER
    GANG = lib.NVS_EVENT_GANG
    LOST = lib.NVS_EVENT_LOST
    WOKE = lib.NVS_EVENT_WOKE


class Action(IntEnum):
    """enum nvs_lock_action_kind."""

    CONNECT = lib.NVS_ACTION_CONNECT
    DISCONNECT = lib.NVS_ACTION_DISCONNECT
    SEND_REGISTER = lib.NVS_ACTION_SEND_REGISTER
    SEND_REQ_LOCK = lib.NVS_ACTION_SEND_REQ_LOCK
    SEND_LOCK_RELEASED = lib.NVS_ACTION_SEND_LOCK_RELEASED
    OPEN_GATE = lib.NVS_ACTION_OPEN_GATE
    DRAIN = lib.NVS_ACTION_DRAIN
    FAIL_GATE = lib.NVS_ACTION_FAIL_GATE
    CLOSE_GATE = lib.NVS_ACTION_CLOSE_GATE
    LOOK = lib.NVS_ACTION_LOOK
    WARN_MISSING = lib.NVS_ACTION_WARN_MISSING
    WARN_LOST = lib.NVS_ACTION_WARN_LOST
    WARN_BAD_FRAME = lib.NVS_ACTION_WARN_BAD_FRAME
    WARN_REFUSED = lib.NVS_ACTION_WARN_REFUSED
    SEND_DRAIN_REPORT = lib.NVS_ACTION_SEND_DRAIN_REPORT
    SEND_ASK_REASON = lib.NVS_ACTION_SEND_ASK_REASON
    WARN_WAITING = lib.NVS_ACTION_WARN_WAITING
    SEND_IDLE = lib.NVS_ACTION_SEND_IDLE
    LOSE_GATE = lib.NVS_ACTION_LOSE_GATE


@dataclass(frozen=True, slots=True)
class Done:
    """One action; ``state`` is meant for SEND_REGISTER and SEND_DRAIN_REPORT, ``grant`` also for SEND_LOCK_RELEASED."""

    kind: Action
    state: int = 0
    grant: int = 0


class IllegalEventError(Exception):
    """The event is illegal in that state."""


@dataclass(slots=True)
class LockState:
    """The state of a lock with a clock of its own, in microseconds, that only the test moves."""

    on_missing: OnMissing = OnMissing.WAIT
    pid: int = 4711
    now: int = 1_000_000
    raw: Any = field(init=False)

    def __post_init__(self) -> None:
        self.raw = ffi.new("struct nvs_lock_state *")
        lib.nvs_lock_state_init(self.raw, self.on_missing, self.pid, PATIENCE, self.now)

    @property
    def link(self) -> Link:
        """The state of the connection."""
        return Link(self.raw.link)

    @property
    def lock(self) -> Lock:
        """The state of the lock."""
        return Lock(self.raw.lock)

    @property
    def deadline(self) -> int:
        """When TIMER is due."""
        return int(lib.nvs_lock_state_deadline(self.raw))

    def image(self) -> bytes:
        """All that it knows, to see whether something changed."""
        return bytes(ffi.buffer(self.raw))

    def handle(self, kind: Event, **fields: int | bool) -> list[Done]:
        """Feeds an event and returns what is to be done; IllegalEventError when it is refused."""
        event = ffi.new("struct nvs_lock_event *", {"kind": int(kind), **fields})
        actions = ffi.new("struct nvs_lock_actions *")
        if not lib.nvs_lock_state_handle(self.raw, event, self.now, actions):
            assert actions.count == 0
            raise IllegalEventError(f"{kind.name} while {self.link.name} and {self.lock.name}")
        return [self._done(actions.list[i]) for i in range(actions.count)]

    def kinds(self, kind: Event, **fields: int | bool) -> list[Action]:
        """Like handle, for the kinds of the actions alone."""
        return [done.kind for done in self.handle(kind, **fields)]

    def pass_time(self) -> list[Done]:
        """Moves the clock to the deadline and feeds TIMER."""
        assert self.deadline != NEVER
        self.now = max(self.now, self.deadline)
        return self.handle(Event.TIMER)

    def connect(self, epoch: int = 7) -> list[Done]:
        """From DOWN to UP; returns what followed SCHED_ON."""
        assert [done.kind for done in self.pass_time()] == [Action.CONNECT]
        assert self.kinds(Event.CONNECTED) == [Action.SEND_REGISTER]
        return self.handle(Event.SCHED_ON, epoch=epoch)

    @staticmethod
    def _done(action: Any) -> Done:
        kind = Action(action.kind)
        sent = kind in (Action.SEND_REGISTER, Action.SEND_LOCK_RELEASED, Action.SEND_DRAIN_REPORT)
        return Done(kind, action.state, action.grant) if sent else Done(kind)

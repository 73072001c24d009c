"""The frames of protocol version 2 as dataclasses. ``wire`` makes bytes of them, and has all of their names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nvshare.protocol.layout import lib
from nvshare.protocol.shared_frames import AskShared, NotShared, OpenShared, Share, Shared, Unshare
from nvshare.protocol.sleep_frames import SleepClientFrame, SleepSchedulerFrame, SleepWhen


class State(IntEnum):
    """The state in which a client says that it is."""

    IDLE = lib.NVS_STATE_IDLE
    WAITING = lib.NVS_STATE_WAITING
    HOLDING = lib.NVS_STATE_HOLDING
    DRAINING = lib.NVS_STATE_DRAINING


class Drain(IntEnum):
    """How a drain that does not simply end goes."""

    STEPPING = lib.NVS_DRAIN_STEPPING
    """One submission at a time passes, since what runs may wait for one."""
    PUT_OFF = lib.NVS_DRAIN_PUT_OFF
    """That led nowhere: the gate is open again, and the drain is tried later."""


class Backend(IntEnum):
    """Where a client's device memory comes from."""

    MANAGED = lib.NVS_BACKEND_MANAGED
    NATIVE = lib.NVS_BACKEND_NATIVE


class Tie(IntEnum):
    """What makes clients wait for each other."""

    NAME = lib.NVS_TIE_NAME
    """The user says so: NVSHARE_GANG."""
    COLLECTIVE = lib.NVS_TIE_COLLECTIVE
    """One communicator of NCCL."""
    MEMORY = lib.NVS_TIE_MEMORY
    """One gave out memory that another one opened."""


class Priority(IntEnum):
    """Whose turn comes first."""

    UNSAID = lib.NVS_PRIORITY_UNSAID
    LOW = lib.NVS_PRIORITY_LOW
    NORMAL = lib.NVS_PRIORITY_NORMAL
    HIGH = lib.NVS_PRIORITY_HIGH


class WhenFull(IntEnum):
    """What becomes of memory asked for that only others' ends could free."""

    UNSAID = lib.NVS_WHEN_FULL_UNSAID
    WAIT = lib.NVS_WHEN_FULL_WAIT
    REFUSE = lib.NVS_WHEN_FULL_REFUSE


@dataclass(frozen=True, slots=True)
class Register:
    """Client: who I am, on which device, in which state. ``pid``, ``command`` and ``name_hint`` are hints."""

    device_uuid: bytes
    total_bytes: int
    state: State = State.IDLE
    backend: Backend = Backend.MANAGED
    pid: int = 0
    epoch: int = 0
    grant: int = 0
    footprint_bytes: int = 0
    command: str = ""
    name_hint: str = ""
    swaps: bool = False
    """Its memory swaps; ``backend`` is for a scheduler that can't know that."""
    level: int = 0
    """Which later frames it knows; from 3 on it sends Terms, after all that it is tied by."""


@dataclass(frozen=True, slots=True)
class SchedOn:
    """Scheduler: registered, as ``client_id``; ``epoch`` is its life, ``level`` says which later frames it knows."""

    client_id: int
    epoch: int
    level: int = lib.NVS_WIRE_LEVEL


@dataclass(frozen=True, slots=True)
class ReqLock:
    """Client: I have work and no lock."""


@dataclass(frozen=True, slots=True)
class LockOk:
    """Scheduler: the lock is yours, as grant ``grant``."""

    grant: int


@dataclass(frozen=True, slots=True)
class DropLock:
    """Scheduler: drain and give grant ``grant`` back."""

    grant: int


@dataclass(frozen=True, slots=True)
class LockReleased:
    """Client: grant ``grant`` is given back, nothing of mine runs."""

    grant: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Client: my footprint is ``footprint_bytes`` now."""

    footprint_bytes: int


@dataclass(frozen=True, slots=True)
class Waiters:
    """Scheduler, to a holder: ``waiters`` clients wait for you; give way once idle for ``idle_microseconds``."""

    waiters: int
    idle_microseconds: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Scheduler: not registered, because of ``text``; the connection ends."""

    text: str
    final: bool = False
    """It would never be registered."""


@dataclass(frozen=True, slots=True)
class DrainReport:
    """Client: the drain of grant ``grant`` is in ``drain``."""

    grant: int
    drain: Drain


@dataclass(frozen=True, slots=True)
class Notice:
    """Client: ``text`` is what whoever looks at me should know."""

    text: str


@dataclass(frozen=True, slots=True)
class AskReason:
    """Client: I still wait; why? ``memory``: for that, and not for the lock."""

    memory: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """Scheduler: you wait because of ``text``; empty: you don't wait. ``memory``: for that, and not for the lock."""

    text: str
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    """Scheduler: the text of the next frame that is no such one begins so; from level 5 on."""

    text: str


@dataclass(frozen=True, slots=True)
class Grow:
    """Client: let me have ``footprint_bytes`` that can move and ``fixed_bytes`` that can't; ``request`` counts up."""

    request: int
    footprint_bytes: int
    fixed_bytes: int


@dataclass(frozen=True, slots=True)
class Allot:
    """Scheduler: ``allotted_bytes`` may be resident, and the footprint may become ``admitted_bytes`` unasked.

    ``order`` counts up over Allot and Evict. ``capacity_bytes`` is the most that could ever be admitted; ``request``
    the newest Grow that this grants, 0 if none is new.
    """

    order: int
    allotted_bytes: int
    admitted_bytes: int
    capacity_bytes: int
    request: int = 0


@dataclass(frozen=True, slots=True)
class Evict:
    """Scheduler: bring what is resident down to ``allotted_bytes``."""

    order: int
    allotted_bytes: int


@dataclass(frozen=True, slots=True)
class Resident:
    """Client: my memory now; ``order`` is the last that I go by."""

    order: int
    footprint_bytes: int
    """What can move, in whole chunks."""
    resident_bytes: int
    """Of the footprint, on the device or on the way."""
    out_bytes: int = 0
    """Of the footprint, what has its contents in host memory alone; what is on the way in included."""
    fixed_bytes: int = 0
    """Counted, and can't move."""
    admitted_bytes: int = 0
    arena_bytes: int = 0
    """Host memory to swap into, received and not given back."""
    usable_bytes: int = 0
    """Of it, registered with the driver."""
    lacking_bytes: int = 0
    """Refused by the driver within the allotment."""
    spared_bytes: int = 0
    """Of all that ever left, what was not copied, because host memory had it already."""
    returned_bytes: int = 0
    """Of all host memory that was ever received, what was given back."""


@dataclass(frozen=True, slots=True)
class RefuseGrowth:
    """Scheduler: Grow ``request`` is not granted, because of ``text``; 0: nothing is, before Limit comes."""

    request: int
    text: str


@dataclass(frozen=True, slots=True)
class Arena:
    """Scheduler, with a descriptor: ``segment_bytes`` more of host memory to swap into."""

    segment_bytes: int


@dataclass(frozen=True, slots=True)
class Terms:
    """Client, after REGISTER: what its environment asks for; 0 or empty: nothing."""

    weight_thousandths: int = 0
    """1000: as everybody."""
    priority: Priority = Priority.UNSAID
    memory_limit_bytes: int = 0
    """On each device, all processes of the container together."""
    memory_request_bytes: int = 0
    """Of that, what stays on the device."""
    compute_limit_thousandths: int = 0
    """Of a device's time, at the most."""
    container: str = ""
    """What the processes are called that count as one container, outside of any."""
    when_full: WhenFull = WhenFull.UNSAID
    sleep: SleepWhen = SleepWhen.UNSAID


@dataclass(frozen=True, slots=True)
class Join:
    """Client: my work may wait for that of all who say this key, ``size`` of them in all (0: not known).

    By name these are processes of this node, and Joined comes when all are here; ``was_complete``: it came before.
    """

    request: int
    key: bytes
    tie: Tie
    size: int = 0
    was_complete: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Client: it does not wait any more for those who say this key."""

    key: bytes
    tie: Tie


@dataclass(frozen=True, slots=True)
class Joined:
    """Scheduler: Join ``request`` is in effect: the client's work may begin to wait for that of others."""

    request: int


@dataclass(frozen=True, slots=True)
class Gang:
    """Scheduler, with a descriptor: you have place ``slot`` of ``slots`` in this page. No slots: you are in no gang."""

    slot: int = 0
    slots: int = 0
    page_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Idle:
    """Client of a gang that holds and was told of waiters: all has completed that I submitted, and no more comes."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Scheduler: say Progress every ``idle_microseconds`` while you hold; 0: no more."""

    idle_microseconds: int
    together: int = 0
    """1: all hold at the same time until further notice, whoever had to wait before."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Client: how far my work is, counted since the process began to use the device."""

    submissions: int
    at_microseconds: int
    """Of the client's monotonic clock, when they were counted."""
    looks: int = 0
    """At how far the device has come."""
    empty_looks: int = 0
    """Of them, those that found nothing left to do."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Scheduler: what your container may allocate on the device, and what its other processes have; 0: no limit."""

    limit_bytes: int
    others_bytes: int = 0


ClientFrame = (
    Register
    | ReqLock
    | LockReleased
    | Footprint
    | DrainReport
    | Notice
    | AskReason
    | Grow
    | Resident
    | Terms
    | Join
    | Leave
    | Idle
    | Progress
    | Share
    | Unshare
    | OpenShared
    | Shared
    | NotShared
    | SleepClientFrame
)
SchedulerFrame = (
    SchedOn
    | LockOk
    | DropLock
    | Waiters
    | Refused
    | Reason
    | Text
    | Allot
    | Evict
    | RefuseGrowth
    | Arena
    | Joined
    | Gang
    | Watch
    | Limit
    | AskShared
    | Shared
    | NotShared
    | SleepSchedulerFrame
)
Frame = ClientFrame | SchedulerFrame

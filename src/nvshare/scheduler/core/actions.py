"""What to do: everything that the scheduler's core ever asks for, in the imperative."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """Send LOCK_OK: the client holds the lock of its device as grant ``grant``."""

    client: int
    grant: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Send DROP_LOCK: the client must drain and give grant ``grant`` back."""

    client: int
    grant: int


@dataclass(frozen=True, slots=True)
class TellWaiters:
    """Send WAITERS to a holder: ``waiters`` clients wait, and it must leave for the first of them; 0 takes that back.

    Sent when the holder begins or ceases to block the first waiter, not each time that the number changes: a holder
    gives the lock back when it is idle, whether one client waits or ten.
    """

    client: int
    waiters: int
    idle_seconds: float
    """How long it is to be idle before it gives the lock back by itself: what the hand-over costs. Without waiters: so
    that its process can sleep; 0: it keeps the lock."""


@dataclass(frozen=True, slots=True)
class ReportUnresponsive:
    """Say that a holder did not answer DROP_LOCK within the grace time; ``overdue_seconds`` since it was sent.

    ``grant`` 0: that one without the lock did not answer EVICT, ``overdue_seconds`` since it last told of its memory.
    """

    client: int
    grant: int
    overdue_seconds: float


@dataclass(frozen=True, slots=True)
class ReportShort:
    """Say that a container's memory request is not granted in full on a device."""

    client: int
    """One of the container's."""
    device: str
    container: str
    requested_bytes: int
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End the process of an unresponsive holder, or (``grant`` 0) of one that keeps memory: somebody waits for that."""

    client: int
    grant: int


@dataclass(frozen=True, slots=True)
class Allot:
    """Send ALLOT: of the client's memory so much may be resident, and its footprint may become so much unasked.

    ``order`` counts up over the client's Allots and Evicts, from 1. Numbers are absolute: the newest counts.
    """

    client: int
    order: int
    allotted_bytes: int
    admitted_bytes: int
    capacity_bytes: int
    """The most that could ever be admitted."""
    request: int = 0
    """The newest GrowthRequested that this grants; 0: none that was not granted before."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Send EVICT: the client must bring what is resident down; one that holds does so when its drain is over."""

    client: int
    order: int
    allotted_bytes: int


@dataclass(frozen=True, slots=True)
class RefuseGrowth:
    """Send REFUSE_GROWTH: the growth is not possible, now and as long as the others keep what they have."""

    client: int
    request: int
    reason: str


@dataclass(frozen=True, slots=True)
class TellLimit:
    """Send LIMIT, where the client knows it: what its container may allocate on the device, and what others have."""

    client: int
    limit_bytes: int
    """0: no limit any more."""
    others_bytes: int
    """What the other processes of the container have allocated."""


@dataclass(frozen=True, slots=True)
class GrowArena:
    """Make host memory for the client and send it, in segments; answered by ArenaGrown. One a client at a time."""

    client: int
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure the device soon: a growth is not possible by what is known of it. Answered by DeviceSeen in any case."""

    device: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """Have a process close its door, and checkpoint it; answered by FellAsleep or StayedAwake.

    All of its memory that can move is out.
    """

    process: int
    clients: tuple[int, ...]
    """All of its clients."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Restore a process that is asleep, and have it open its door; answered by Woke. There is room for its contexts."""

    process: int
    clients: tuple[int, ...]
    """All of its clients."""


@dataclass(frozen=True, slots=True)
class StoreArena:
    """Send STORE with a new file, so that the host memory of a client that sleeps is free.

    Answered by ArenaStored or ArenaNotStored. It comes back as GrowArena, answered by ArenaLoaded beside ArenaGrown.
    """

    client: int


@dataclass(frozen=True, slots=True)
class ShareArena:
    """Find out what of the host memory of a client that sleeps others of its owner have as well, and have that kept
    once, in a pack; answered by ArenaShared or ArenaNotShared. It comes back as from a file (StoreArena).
    """

    client: int
    pack_bytes: int
    """The most that a new pack may take; 0: only one that is there may be used."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Send WATCH: the client reports its progress every ``interval_seconds`` while it holds; 0: no more."""

    client: int
    interval_seconds: float
    together: bool = False
    """All hold at the same time, and will as long as nothing changes: nobody has to leave soon."""


@dataclass(frozen=True, slots=True)
class ConfirmJoin:
    """Send JOINED: from now on the client gets the lock with all that it is tied to by GangJoined ``request``."""

    client: int
    request: int


@dataclass(frozen=True, slots=True)
class FormGang:
    """Make a page for these clients, and send it to each with GANG and its place in this order."""

    gang: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeaveGang:
    """Send GANG without a page: the client is in no gang any more."""

    client: int


@dataclass(frozen=True, slots=True)
class ReportMissing:
    """Say that clients wait because not all processes of their gang have come."""

    clients: tuple[int, ...]
    """Those of the gang that are here."""
    name: str
    come: int
    expected: int
    seconds: float
    """For how long the first of them has waited."""


@dataclass(frozen=True, slots=True)
class ReportSize:
    """Say that a client says another size of its gang than the first one, which counts."""

    client: int
    name: str
    said: int
    """0: no size."""
    counts: int


Report = ReportUnresponsive | ReportShort | ReportMissing | ReportSize
"""What is said to the operator."""

ClientAction = Grant | Revoke | TellWaiters | Allot | Evict | RefuseGrowth | TellLimit | Watch | ConfirmJoin | LeaveGang
"""What is sent to the client as it is."""

MemoryAction = GrowArena | StoreArena | ShareArena | Measure
"""What is to be done about the memory of a client, or of a device."""

Action = ClientAction | Report | Kill | MemoryAction | FormGang | Sleep | Wake

"""What can be seen of the core from outside: immutable snapshots of one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.terms import Terms


class ShownState(Enum):
    """A client's state as people see it."""

    IDLE = "idle"
    WAITING = "waiting"
    HOLDING = "holding"
    LEAVING = "leaving"
    """It holds still and was asked to leave."""
    ASLEEP = "asleep"
    """Its process is checkpointed: it has nothing on its devices."""
    WAKING = "waking"
    """It waits for room for its context, or gets that back."""
    UNRESPONSIVE = "unresponsive"
    """It did not leave in time, a holder the lock or another one the memory."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A client's present turn, or that of one that is in the way without one."""

    client: int
    seconds: float
    holds: bool = True
    """False: it keeps memory of the device that others wait for."""


@dataclass(frozen=True, slots=True)
class Line:
    """The place of one that waits among all that wait for a device."""

    position: int
    """From 1."""
    length: int
    seconds: float
    """Of the present wait."""
    behind: tuple[Turn, ...]
    """The holders that the first of the line waits for, and all behind it with it."""
    recovering: bool
    """Nothing is granted now, because clients of a former scheduler may come back."""
    too_large: bool = False
    """What it has that can be swapped does not fit the device beside what can't leave it, whoever holds: it is passed
    over until it does."""
    limit_seconds: float = 0.0
    """So long its container's compute limit keeps it out; infinite: until others of the container have left."""


@dataclass(frozen=True, slots=True)
class SwapSnapshot:
    """The memory of a client that swaps. Its footprint is what can move."""

    resident_bytes: int
    """Of the footprint, on the device or on the way from or to it."""
    out_bytes: int
    """The rest of the footprint."""
    fixed_bytes: int
    """Counted, and can't move."""
    allotted_bytes: int
    """What may be resident."""
    admitted_bytes: int
    """What the footprint may become unasked."""
    arena_bytes: int
    """Host memory to swap into that it has."""
    usable_bytes: int
    """Of it, registered with the driver."""
    in_bytes: int = 0
    """Still to come in now; 0: nothing is on the way in."""
    leaving_bytes: int = 0
    """Still to leave now; 0: nothing is on the way out."""
    wanted_bytes: int = 0
    """More memory that a call of its program waits for."""
    wait: str = ""
    """Why only others' ends can free that; empty: it waits for nothing of the kind."""
    still_seconds: float = 0.0
    """For how long it has told of nothing though it has to move something, or its process to sleep or to wake."""
    came_bytes: int = 0
    """That came in from host memory, since it was registered."""
    left_bytes: int = 0
    """That were copied out since then."""
    stored_bytes: int = 0
    """Of the footprint, in a file instead of host memory."""
    shared_bytes: int = 0
    """Of the arena, in a pack that others have too instead of memory of its own."""
    awaits_context: bool = False
    """It waits for room for its first context: nothing is pinned for it yet."""


@dataclass(frozen=True, slots=True)
class GangSnapshot:
    """The gang that a client is in."""

    number: int
    name: str
    """What its user calls it; empty: nothing."""
    members: int
    """On this node."""
    size: int
    """In all, as far as that is known."""
    apart: bool
    """On one device there is no room for all of its members there: each takes the lock by itself."""
    come: int = 0
    expected: int = 0
    """Processes that have come of those that must before any may hold; 0: nobody is waited for."""


@dataclass(frozen=True, slots=True)
class GangWait:
    """What the gang of a client that waits, waits for."""

    members: int
    """How many wait together."""
    device: str
    """Where it can't come in. Empty: it has not stopped everywhere since its last turn."""
    client: int
    """Who holds there, or has not stopped; 0: others are before it there."""
    come: int = 0
    expected: int = 0
    """As in GangSnapshot: where this is not 0 nothing else is waited for."""
    too_large: bool = False
    """It is ``client``, one of its own, whose memory is too large (Line)."""
    silent: bool = False
    """It is ``client``, one of its own, which does not answer that its memory may come in."""


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The host memory of all clients' arenas."""

    budget_bytes: int
    used_bytes: int
    """Made or being made, that of clients included which are gone and whose memory is not known to be free."""
    file_budget_bytes: int = 0
    """What of the arenas of clients that sleep may be in files instead."""
    file_used_bytes: int = 0
    shared_bytes: int = 0
    """What of the arenas of clients that sleep is in packs instead."""
    packs_bytes: int = 0
    """Of what is used, the packs: each counts once."""


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """One client."""

    client: int
    state: ShownState
    footprint_bytes: int | None
    """None: the client does not report it."""
    pinned_bytes: int
    pinned_measured: bool
    """False: ``pinned_bytes`` is assumed."""
    held_seconds: float
    """All its turns together, the present one included."""
    waited_seconds: float
    """All its waits together, the present one included."""
    grants: int
    """Grants that this scheduler made to it."""
    line: Line | None = None
    """None: it does not wait."""
    swap: SwapSnapshot | None = None
    """None: its memory does not swap."""
    container: str = ""
    """Of which it is a part; empty: of none but its own."""
    terms: Terms = field(default_factory=Terms)
    """Of its container."""
    gang: GangSnapshot | None = None
    """None: it is in none."""
    wait: GangWait | None = None
    """None: it does not wait with a gang, or nobody asked."""
    kept_bytes: int = 0
    """What is granted on the device of its container's memory request."""
    awake_reason: str = ""
    """Why its process can't sleep; empty: it can, or nobody has tried."""
    sleeps: int = 0
    """How often its process fell asleep."""
    keeps_room: bool = False
    """It is unresponsive without holding: it has not left the device as it was told."""

    @property
    def allocated_bytes(self) -> int | None:
        """Everything that the client allocated; None: it does not report it."""
        if self.footprint_bytes is None or self.swap is None:
            return self.footprint_bytes
        return self.footprint_bytes + self.swap.fixed_bytes


@dataclass(frozen=True, slots=True)
class Totals:
    """What happened on a device since it was first seen, clients that are gone included. No figure ever falls."""

    grants: int = 0
    revokes: int = 0
    unresponsive: int = 0
    """Grants that were not given back within the grace time."""
    held_seconds: float = 0.0
    """The sum over all clients: holders at the same time count each."""
    waited_seconds: float = 0.0
    """The sum over all clients."""


@dataclass(frozen=True, slots=True)
class TrafficSnapshot:
    """What moved to and from host memory since a device was first seen. No figure but the rates ever falls."""

    in_bytes: int = 0
    """That came in from host memory."""
    out_bytes: int = 0
    """That were copied out."""
    spared_bytes: int = 0
    """That left and were not copied, because host memory had them already."""
    in_seconds: float = 0.0
    """While something came in."""
    out_seconds: float = 0.0
    """While something left."""
    in_bytes_per_second: float = 0.0
    """Of late; 0: not known yet."""
    out_bytes_per_second: float = 0.0
    stalls: int = 0
    """Hand-overs to clients that swap, of a device that nobody held any more."""
    stall_seconds: float = 0.0
    """How long the device waited, all together."""
    prefetched: int = 0
    """Hand-overs for which nothing had to be waited for."""
    refused: int = 0
    """Growths that were refused."""


@dataclass(frozen=True, slots=True)
class MixSnapshot:
    """Whether the clients that use a device now, and fit it together, do better together or in turns."""

    turns: bool
    """They take turns for that reason."""
    measuring: bool
    ratio: float | None = None
    """What they do together, measured by what they do in turns; None: not known yet."""
    measured_seconds: float | None = None
    """How long ago that was."""
    bursts: float | None = None
    """How many times as long as in turns the bursts take together of those that pause, which decides then; None: nobody
    pauses, or it is not known."""


@dataclass(frozen=True, slots=True)
class DeviceSnapshot:
    """One device and its clients, in the order of their registration."""

    device: str
    total_bytes: int
    foreign_bytes: int
    policy: Policy
    quantum_seconds: float
    quantum_left_seconds: float | None
    """Until holders are asked to leave for the first waiter; None while no holder blocks a waiter, or only holders of a
    higher class do."""
    recovering: bool
    """Holders of the scheduler before this one are not back yet; nothing is granted before they are, or are dead."""
    clients: tuple[ClientSnapshot, ...]
    totals: Totals
    total_measured: bool = True
    """False: ``total_bytes`` is the least that a client claims, 0 if none does."""
    reserve_bytes: int = 0
    """What stays free for what the driver takes unasked; 0 where nothing swaps."""
    shortage_bytes: int = 0
    in_doubt: bool = False
    """A growth waits for the next measurement."""
    """What the driver refused though it seemed to be there, until the device is measured again."""
    traffic: TrafficSnapshot = TrafficSnapshot()
    mix: MixSnapshot | None = None
    """None: fewer than two clients use the device whose progress can be compared."""

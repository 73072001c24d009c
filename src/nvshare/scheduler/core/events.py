"""What happened: everything that the scheduler's core is ever told, in the past tense."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nvshare.scheduler.core.sleep_events import OwnerFound, SleepEvent, SleepOffered, StoreEvent
from nvshare.scheduler.core.terms import Terms


class Policy(Enum):
    """How the clients of a device share it."""

    AUTO = "auto"
    """Clients that fit the device's memory together hold the lock together, unless they are measured to do better in
    turns; others take turns."""
    EXCLUSIVE = "exclusive"
    """One holder at a time."""
    OFF = "off"
    """Everyone runs."""


class Backend(Enum):
    """Where a client's allocations are while it does not hold the lock."""

    MANAGED = "managed"
    """In unified memory: their pages give way to whoever holds."""
    NATIVE = "native"
    """On the device, always."""
    SWAP = "swap"
    """On the device or in host memory, as the core says: the client moves it."""


class ClaimedState(Enum):
    """The state that a client claims when it registers."""

    IDLE = "idle"
    WAITING = "waiting"
    HOLDING = "holding"
    DRAINING = "draining"
    """It gives the lock back as soon as what it submitted has completed."""


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    """A device became known, or its memory was measured anew.

    ``total_bytes`` is 0 where it can't be measured: then the clients' claims count, and without any no two clients with
    memory are known to fit together. ``foreign_bytes`` is used by processes that are no clients; not ``settled``: some
    of them may soon be.
    """

    device: str
    total_bytes: int
    foreign_bytes: int = 0
    settled: bool = True


@dataclass(frozen=True, slots=True)
class DeviceForgotten:
    """A device that no client uses is not known any more; what was set for it is forgotten as well."""

    device: str


@dataclass(frozen=True, slots=True)
class ClientRegistered:
    """A process began to use a device, or came back after this scheduler or the one before lost it.

    ``footprint_bytes`` is None for a client that does not report it (protocol 1). ``grant`` is read only with HOLDING
    and DRAINING: the grant under which the client runs, 0 if it runs without one. ``recorded_grant`` is the grant of
    the HolderRecorded that this process is. A claim to hold is believed for that grant only; any other client that
    claims to hold must leave at once, and counts as a holder until it has, but not if it is ``doubted``.
    ``device_bytes`` is the device's memory as the client says it, 0 if it does not. The footprint of one that swaps
    is what can move; all of it counts as on the device until the first ResidencyReported.
    """

    client: int
    device: str
    footprint_bytes: int | None
    claimed: ClaimedState
    grant: int = 0
    recorded_grant: int | None = None
    doubted: bool = False
    backend: Backend = Backend.MANAGED
    device_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HolderRecorded:
    """The scheduler before this one granted ``grant``, and its holder is neither back nor known to be dead."""

    device: str
    grant: int


@dataclass(frozen=True, slots=True)
class HolderDied:
    """The holder of a HolderRecorded will not come back: nothing of it runs any more."""

    grant: int


@dataclass(frozen=True, slots=True)
class ResidentRecorded:
    """A client of the scheduler before this one had memory that swaps on a device; ``record`` is whatever names it.

    Until the ResidentSettled of all of them nobody on the device is given memory, and nobody at all host memory.
    """

    device: str
    record: int


@dataclass(frozen=True, slots=True)
class ResidentSettled:
    """The client of a ResidentRecorded has said what it has, or is dead, or was awaited long enough."""

    record: int


@dataclass(frozen=True, slots=True)
class LockRequested:
    """A client has work and no lock."""

    client: int


@dataclass(frozen=True, slots=True)
class LockReleased:
    """A client drained and closed its gate; ``grant`` is the grant that it gives back."""

    client: int
    grant: int


@dataclass(frozen=True, slots=True)
class FootprintChanged:
    """A client allocated or freed device memory."""

    client: int
    footprint_bytes: int


@dataclass(frozen=True, slots=True)
class PinnedMeasured:
    """The device memory of a client that is not in its footprint (context, modules) was measured."""

    client: int
    pinned_bytes: int


@dataclass(frozen=True, slots=True)
class PinnedAssumed:
    """A client's memory that is not in its footprint can't be measured; ``pinned_bytes`` is the best that is known."""

    client: int
    pinned_bytes: int


@dataclass(frozen=True, slots=True)
class GrowthRequested:
    """A client that swaps wants to be admitted so much, as ``request``; what it asked for before is void."""

    client: int
    request: int
    footprint_bytes: int
    """That can move."""
    fixed_bytes: int
    """Counted, and can't move."""


@dataclass(frozen=True, slots=True)
class ResidencyReported:
    """The memory of a client that swaps, which goes by ``order`` and all orders before."""

    client: int
    order: int
    footprint_bytes: int
    """What can move."""
    resident_bytes: int
    """Of the footprint, on the device or on the way from or to it."""
    fixed_bytes: int = 0
    """Counted, and can't move."""
    admitted_bytes: int = 0
    """What the footprint may become unasked; less than the core said where the client gave some of it back."""
    arena_bytes: int = 0
    """Host memory to swap into that it has."""
    usable_bytes: int = 0
    """Of it, registered with the driver."""
    out_bytes: int = 0
    """Of the footprint, copied to host memory."""
    lacking_bytes: int = 0
    """What the driver refused though it was within the allotment."""
    spared_bytes: int = 0
    """Of all that ever left, what was not copied, because host memory had it already."""
    returned_bytes: int = 0
    """Of all host memory that it was ever sent, what it gave back."""


@dataclass(frozen=True, slots=True)
class ArenaGrown:
    """A client was sent host memory to swap into, as a GrowArena asked; less than it asked: there was no more."""

    client: int
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class HostMemorySet:
    """All clients' arenas together may have so much host memory."""

    host_bytes: int


@dataclass(frozen=True, slots=True)
class ClientGone:
    """A client's connection ended.

    Where memory swaps, what the client had on the device counts until the MemoryFreed.
    """

    client: int


@dataclass(frozen=True, slots=True)
class MemoryFreed:
    """The driver shows that nothing of a client that is gone is on the device, or its process registered anew.

    Of a client that had nothing that counts it says nothing new.
    """

    client: int


@dataclass(frozen=True, slots=True)
class ContainerFound:
    """It is known now in which container a client is, and on which terms that is; until now it was in one of its own.

    An empty ``container``: in none but its own.
    """

    client: int
    container: str
    terms: Terms


@dataclass(frozen=True, slots=True)
class TermsSet:
    """The terms of a container that has clients changed."""

    container: str
    terms: Terms


@dataclass(frozen=True, slots=True)
class ProgressOffered:
    """A client can report how its work goes on."""

    client: int


@dataclass(frozen=True, slots=True)
class GangJoined:
    """From now on a client's work may wait for that of all who say the same key; answered by ConfirmJoin."""

    client: int
    key: str
    size: int
    """How many belong together, wherever they are; 0: not known."""
    request: int
    name: str = ""
    """What the user calls it; empty: nothing."""
    process: int = 0
    """Of which the client is, where a user ties processes by name; else 0."""
    processes: int = 0
    """How many of these there are on this node: nobody gets a device before all are here; 0: the user did not say."""
    was_complete: bool = False
    """All of them were here already, at a scheduler before this one too."""


@dataclass(frozen=True, slots=True)
class GangLeft:
    """A client's work does not wait any more for that of those who say this key."""

    client: int
    key: str


@dataclass(frozen=True, slots=True)
class ClientIdle:
    """Nothing runs of what a holder submitted and nothing comes, as far as it can see; said again while that is so."""

    client: int


@dataclass(frozen=True, slots=True)
class ProgressReported:
    """How far a client's work is, counted since its process began to use the device.

    It tells so as often as a Watch asks while it holds, and each time that its gate opens, and that it has drained.
    """

    client: int
    submissions: int
    at_seconds: float
    """Of the client's own clock, when they were counted."""
    looks: int = 0
    """At how far the device had come."""
    empty_looks: int = 0
    """Of them, those that found nothing left to do."""


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The operator chose a policy, for one device or (None) for all, later ones included."""

    policy: Policy
    device: str | None = None


@dataclass(frozen=True, slots=True)
class QuantumSet:
    """The operator chose a quantum, for one device or (None) for all, later ones included."""

    seconds: float
    device: str | None = None


Event = (
    DeviceSeen
    | DeviceForgotten
    | ClientRegistered
    | HolderRecorded
    | HolderDied
    | ResidentRecorded
    | ResidentSettled
    | LockRequested
    | LockReleased
    | FootprintChanged
    | PinnedMeasured
    | PinnedAssumed
    | GrowthRequested
    | ResidencyReported
    | ArenaGrown
    | HostMemorySet
    | SleepOffered
    | SleepEvent
    | StoreEvent
    | OwnerFound
    | ClientGone
    | MemoryFreed
    | ContainerFound
    | TermsSet
    | ProgressOffered
    | ProgressReported
    | GangJoined
    | GangLeft
    | ClientIdle
    | PolicySet
    | QuantumSet
)

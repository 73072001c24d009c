"""What happened: everything that the scheduler's core is ever told, in the past tense."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Policy(Enum):
    """How the clients of a device share it."""

    AUTO = "auto"
    """Clients that fit the device's memory together hold the lock together; others take turns."""
    EXCLUSIVE = "exclusive"
    """One holder at a time."""
    OFF = "off"
    """Everyone runs."""


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

    ``total_bytes`` is 0 while unknown: then no two clients with memory are known to fit together. ``foreign_bytes`` is
    used by processes that are no clients.
    """

    device: str
    total_bytes: int
    foreign_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ClientRegistered:
    """A process began to use a device, or came back after this scheduler or the one before lost it.

    ``footprint_bytes`` is None for a client that does not report it (protocol 1). ``grant`` is read only with HOLDING
    and DRAINING: the grant under which the client runs, 0 if it runs without one. ``recorded_grant`` is the grant of
    the HolderRecorded that this process is. A claim to hold is believed for that grant only; any other client that
    claims to hold must leave at once, and counts as a holder until it has, but not if it is ``doubted``.
    """

    client: int
    device: str
    footprint_bytes: int | None
    claimed: ClaimedState
    grant: int = 0
    recorded_grant: int | None = None
    doubted: bool = False


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
class ClientGone:
    """A client's connection ended."""

    client: int


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
    | ClientRegistered
    | HolderRecorded
    | HolderDied
    | LockRequested
    | LockReleased
    | FootprintChanged
    | PinnedMeasured
    | ClientGone
    | PolicySet
    | QuantumSet
)

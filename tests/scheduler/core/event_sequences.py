"""Random sequences of what clients do, for the core and for a real server.

``operations()`` makes lists of operations: what clients, operator and time do. A client is named by its slot, which one
client after another uses. ``Peers`` knows what each client knows about itself and turns an operation into the event
that a correct client would cause, or into None where such a client could not do that now. A test feeds the event to a
core, or sends the message to a server, and hands every answer to ``Peers.receive``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from nvshare.scheduler.core.actions import Action, Grant, Kill, ReportUnresponsive, Revoke, TellWaiters
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    Event,
    FootprintChanged,
    HolderDied,
    LockReleased,
    LockRequested,
    PinnedAssumed,
    PinnedMeasured,
    Policy,
    PolicySet,
    QuantumSet,
)

GIB = 1 << 30
DEVICE_BYTES = 16 * GIB
DEVICES = ("GPU-a", "GPU-b")
SLOTS = 6
QUANTA_SECONDS = (1.0, 5.0, 30.0)
FALSE_GRANTS = (0, (1 << 63) - 1)
"""What clients claim to hold that no scheduler granted; 0: that is no lie."""
FOOTPRINTS = tuple(size * GIB for size in (0, 1, 2, 3, 4, 6, 8, 12, 20))


@dataclass(frozen=True, slots=True)
class Come:
    """A client appears in a slot; ``returns``: it is one of the recorded holders, if any is left."""

    slot: int
    device: str
    footprint_bytes: int | None
    claimed: ClaimedState
    returns: bool = False
    doubted: bool = False
    backend: Backend = Backend.MANAGED
    device_bytes: int = DEVICE_BYTES


@dataclass(frozen=True, slots=True)
class Die:
    """A recorded holder of a device turns out to be dead."""

    device: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The client in a slot has work."""

    slot: int


@dataclass(frozen=True, slots=True)
class Release:
    """The holder in a slot gives the lock back, asked or not."""

    slot: int


@dataclass(frozen=True, slots=True)
class Resize:
    """The client in a slot allocates or frees."""

    slot: int
    footprint_bytes: int


@dataclass(frozen=True, slots=True)
class Pin:
    """The context of the client in a slot is measured, or assumed anew."""

    slot: int
    pinned_bytes: int
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Go:
    """The client in a slot ends."""

    slot: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes."""

    seconds: float


Operation = Come | Die | Ask | Release | Resize | Pin | Go | Wait | PolicySet | QuantumSet


@dataclass(slots=True)
class Peer:
    """A client as it sees itself."""

    number: int
    waiting: bool = False
    grant: int | None = None
    """What it holds; 0: it holds without a grant."""
    asked_to_leave: bool = False
    waiters: int = 0
    """How many others wait for it, as it was told last."""


@dataclass(slots=True)
class Peers:
    """All clients as they see themselves."""

    by_slot: dict[int, Peer] = field(default_factory=dict)
    last_number: int = 0
    recorded: dict[str, list[int]] = field(default_factory=dict)
    """The grants of recorded holders that are not back, by device."""

    def event(self, operation: Operation) -> Event | None:
        """What the operation means to the scheduler; None if nobody could do it now, or if it is a Wait."""
        match operation:
            case Come():
                return None if operation.slot in self.by_slot else self._come(operation)
            case Die():
                grants = self.recorded.get(operation.device)
                return HolderDied(grants.pop()) if grants else None
            case Wait():
                return None
            case PolicySet() | QuantumSet():
                return operation
            case _:
                peer = self.by_slot.get(operation.slot)
                return None if peer is None else self._of_peer(operation, peer)

    def receive(self, action: Action) -> None:
        """A client got a message. One for a client that has ended is lost."""
        peer = next((peer for peer in self.by_slot.values() if peer.number == action.client), None)
        if peer is None:
            return
        match action:
            case Grant(_, grant):
                peer.waiting, peer.grant = False, grant
            case Revoke(_, grant):
                peer.asked_to_leave = peer.grant == grant
            case TellWaiters(_, waiters, _):
                peer.waiters = waiters
            case ReportUnresponsive() | Kill():
                pass
            case _:
                raise AssertionError(f"{action} though nothing swaps")

    def _come(self, operation: Come) -> Event:
        self.last_number += 1
        grants = self.recorded.get(operation.device)
        recorded = grants.pop() if operation.returns and grants else None
        grant = FALSE_GRANTS[operation.slot % len(FALSE_GRANTS)] if recorded is None else recorded
        drains = operation.claimed is ClaimedState.DRAINING
        holds = drains or operation.claimed is ClaimedState.HOLDING
        self.by_slot[operation.slot] = Peer(
            self.last_number,
            waiting=operation.claimed is ClaimedState.WAITING,
            grant=grant if holds else None,
            asked_to_leave=drains,
        )
        return ClientRegistered(
            self.last_number,
            operation.device,
            operation.footprint_bytes,
            operation.claimed,
            grant=grant,
            recorded_grant=recorded,
            doubted=operation.doubted,
            backend=operation.backend,
            device_bytes=operation.device_bytes,
        )

    def _of_peer(self, operation: Ask | Release | Resize | Pin | Go, peer: Peer) -> Event | None:
        match operation:
            case Ask() if not peer.waiting and peer.grant is None:
                peer.waiting = True
                return LockRequested(peer.number)
            case Release() if peer.grant is not None:
                grant, peer.grant, peer.asked_to_leave, peer.waiters = peer.grant, None, False, 0
                return LockReleased(peer.number, grant)
            case Resize():
                return FootprintChanged(peer.number, operation.footprint_bytes)
            case Pin():
                kind = PinnedMeasured if operation.measured else PinnedAssumed
                return kind(peer.number, operation.pinned_bytes)
            case Go():
                del self.by_slot[operation.slot]
                return ClientGone(peer.number)
            case _:
                return None


SLOT = st.integers(0, SLOTS - 1)
COMES = st.one_of(
    st.builds(
        Come,
        SLOT,
        st.sampled_from(DEVICES),
        st.sampled_from(FOOTPRINTS),
        st.sampled_from(ClaimedState),
        backend=st.sampled_from((Backend.MANAGED, Backend.NATIVE)),
        device_bytes=st.sampled_from((0, DEVICE_BYTES, DEVICE_BYTES, 12 * GIB, 1024 * GIB)),
        returns=st.booleans(),
        doubted=st.booleans(),
    ),
    st.builds(Come, SLOT, st.sampled_from(DEVICES), st.none(), st.sampled_from(ClaimedState), returns=st.booleans()),
)
DEATHS = st.builds(Die, st.sampled_from(DEVICES))
RECORDS = st.fixed_dictionaries({device: st.integers(0, 2) for device in DEVICES}).map(
    lambda counts: {
        device: [3 + 10 * place + number for number in range(counts[device])] for place, device in enumerate(DEVICES)
    }
)
"""Recorded holders: grants by device."""
RESIZES = st.builds(Resize, SLOT, st.sampled_from(FOOTPRINTS))
PINS = st.builds(Pin, SLOT, st.sampled_from((0, GIB // 2, GIB)), st.booleans())
WAITS = st.builds(Wait, st.sampled_from((0.0, 0.25, 1.0, 4.0, 30.0)))
POLICIES = st.builds(PolicySet, st.sampled_from(Policy), st.sampled_from((*DEVICES, None)))
QUANTA = st.builds(QuantumSet, st.sampled_from(QUANTA_SECONDS), st.sampled_from((*DEVICES, None)))


def operations(*, operator: bool = True, most: int = 60) -> st.SearchStrategy[list[Operation]]:
    """Lists of operations, many of them possible; without ``operator`` policy and quantum stay as they are."""
    kinds: list[st.SearchStrategy[Operation]] = [
        COMES,
        st.builds(Ask, SLOT),
        st.builds(Ask, SLOT),
        st.builds(Release, SLOT),
    ]
    kinds += [RESIZES, PINS, WAITS, st.builds(Go, SLOT), DEATHS]
    if operator:
        kinds += [POLICIES, QUANTA]
    everybody: list[Operation] = [Come(slot, DEVICES[slot % 2], 6 * GIB, ClaimedState.IDLE) for slot in range(SLOTS)]
    return st.lists(st.one_of(kinds), max_size=most).map(lambda drawn: everybody + drawn)

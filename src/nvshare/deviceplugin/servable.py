"""How many virtual devices of a GPU are offered: as many as there is memory for, and all that containers hold.

A GPU's servable memory is its own memory that programs may have, and its equal share of the host memory to swap into. A
virtual device stands for an equal part of it. Each one that a pod has keeps that part, or what its programs were
promised and wait for, if that is more. Of the rest, further ones are offered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.deviceplugin.devices import BadDeviceIdError, parse
from nvshare.deviceplugin.settled import SETTLED_SECONDS, Settled

_NATIVE = "native"
_CLAIM = "claim:"
"""In the place of a namespace: no namespace is called so."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What one pod has of a GPU."""

    held: frozenset[int] = frozenset()
    """The ordinals of its containers' virtual devices; none if kubelet has not told of them yet."""
    promised_bytes: int = 0
    """What its clients may allocate without asking, and what they wait for."""

    claimed_shares: int = 0
    """Those of a ResourceClaim, which stands for all its pods; 0: it is none."""

    @property
    def virtual_devices(self) -> int:
        """How many it has, or shares that count as such: one if they are not known."""
        return max(1, len(self.held), self.claimed_shares)


@dataclass(frozen=True, slots=True)
class Room:
    """The memory of one GPU as the scheduler tells it, in bytes."""

    device_bytes: int
    """What programs may have of the GPU itself."""
    host_bytes: int
    """Its share of the host memory to swap into."""
    host_left_bytes: int
    """What all GPUs' promises leave of the host memory."""
    pods: tuple[Pod, ...] = ()
    outside_bytes: int = 0
    """What clients were promised that are in no pod."""

    @property
    def promised_bytes(self) -> int:
        """What all clients may allocate without asking, and what they wait for."""
        return self.outside_bytes + sum(each.promised_bytes for each in self.pods)

    @property
    def claimed_shares(self) -> int:
        """What claims have, for which no ordinals stand."""
        return sum(each.claimed_shares for each in self.pods)

    @property
    def held(self) -> frozenset[int]:
        """The ordinals of the virtual devices that containers hold."""
        return frozenset(ordinal for each in self.pods for ordinal in each.held)

    def offered(self, virtual_devices: int) -> int:
        """How many virtual devices, those that pods have included, there is memory for; from 0 to all."""
        taken = sum(each.virtual_devices for each in self.pods)
        servable = self.device_bytes + self.host_bytes
        if servable <= 0:
            return min(taken, virtual_devices)
        parts = (max(each.promised_bytes, servable * each.virtual_devices // virtual_devices) for each in self.pods)
        unpromised = max(0, self.device_bytes - self.promised_bytes) + self.host_left_bytes
        left = min(servable - self.outside_bytes - sum(parts), unpromised)
        further = (2 * max(0, left) * virtual_devices + servable) // (2 * servable)
        return min(taken + further, virtual_devices)

    def __str__(self) -> str:
        host = f" and {display.size(self.host_bytes)} of host memory" if self.host_bytes else ", nothing is swapped"
        return f"{display.size(self.promised_bytes)} are promised, of {display.size(self.device_bytes)}{host}"


class Servable:
    """Which virtual devices are withheld, from what the scheduler tells. All are offered while it does not."""

    def __init__(self, status: Callable[[], admin_pb2.Status | None], clock: Callable[[], float]) -> None:
        """``status``: None while the scheduler does not tell it. ``clock`` is monotonic, in seconds."""
        self._status = status
        self._clock = clock
        self._counts: dict[str, Settled] = {}
        self._held: dict[str, dict[int, float]] = {}
        """When each ordinal of a GPU was held last."""

    def withheld(self, uuid: str, virtual_devices: int) -> frozenset[int]:
        """The ordinals that are not to be given out: the highest ones that nobody holds or has held just now.

        A kubelet that has just begun tells of no containers at first, and admits those that it has anew.
        """
        room, now = self.room(uuid), self._clock()
        if room is None and uuid not in self._counts:
            return frozenset()
        count = virtual_devices if room is None else max(0, room.offered(virtual_devices) - room.claimed_shares)
        settled = self._counts.setdefault(uuid, Settled(count)).take(count, now)
        held = self._held.setdefault(uuid, {})
        if room is not None:
            held.update(dict.fromkeys(room.held, now))
            self._held[uuid] = held = {each: at for each, at in held.items() if at > now - SETTLED_SECONDS}
        free = [ordinal for ordinal in range(1, virtual_devices + 1) if ordinal not in held]
        return frozenset(free[max(0, settled - (virtual_devices - len(free))) :])

    def room(self, uuid: str) -> Room | None:
        """The GPU's memory; None while the scheduler does not tell enough of it."""
        status = self._status()
        # A scheduler of an older version does not know, and one that has just begun has not heard kubelet yet.
        if status is None or not status.knows_allocations:
            return None
        promised = {device.uuid: sum(map(_promised_bytes, device.clients)) for device in status.devices}
        beyond = sum(max(0, promised[device.uuid] - _device_bytes(device)) for device in status.devices)
        for device in status.devices:
            if device.uuid == uuid and device.total_bytes:
                pods = _pods(device)
                return Room(
                    _device_bytes(device),
                    status.host_memory_bytes // len(status.devices),
                    max(0, status.host_memory_bytes - beyond),
                    pods,
                    promised[uuid] - sum(each.promised_bytes for each in pods),
                )
        return None


def _device_bytes(device: admin_pb2.Device) -> int:
    return max(0, device.total_bytes - device.reserve_bytes - device.foreign_bytes)


def _promised_bytes(client: admin_pb2.Client) -> int:
    """Managed memory is left out: the driver pages it, into whatever host memory there is."""
    if client.HasField("swap"):
        swap = client.swap
        own_bytes = max(client.footprint_bytes, swap.fixed_bytes + swap.admitted_bytes) + swap.wanted_bytes
        return client.pinned_bytes + own_bytes
    return client.pinned_bytes + (client.footprint_bytes if client.backend == _NATIVE else 0)


def _pods(device: admin_pb2.Device) -> tuple[Pod, ...]:
    """Those that kubelet tells of, and those whose clients are here already; of those with a claim, the claim."""
    held: dict[tuple[str, str], set[int]] = {}
    shares: dict[tuple[str, str], int] = {}
    claims: dict[tuple[str, str], tuple[str, str]] = {}
    for allocation in device.allocations:
        pod = (allocation.identity.namespace, allocation.identity.pod)
        if allocation.claim:
            claims[pod] = claim = (_CLAIM, allocation.claim)
            shares[claim] = max(1, allocation.shares)
            continue
        ordinals = held.setdefault(pod, set())
        for device_id in allocation.virtual_device_ids:
            # An id that is none of ours stands for nothing, whatever kubelet was told.
            with suppress(BadDeviceIdError):
                ordinals.add(parse(device_id).ordinal)
    promised = Counter[tuple[str, str]]()
    for client in device.clients:
        namespace, name = client.identity.namespace, client.identity.pod
        if name:
            # A client need not tell its namespace.
            known = (*held, *claims)
            pod = next((pod for pod in known if pod[1] == name and namespace in ("", pod[0])), (namespace, name))
            promised[pod if pod in held else claims.get(pod, pod)] += _promised_bytes(client)
    holders = {**held, **shares, **promised}
    return tuple(Pod(frozenset(held.get(each, ())), promised[each], shares.get(each, 0)) for each in holders)

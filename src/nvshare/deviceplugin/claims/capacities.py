"""What claims may have of each GPU now, from what the scheduler tells. While it is silent, what it said last counts.

A number changes once it has been another one for a while (``settled``): each change is a write to the API, and a
kubelet that has just begun tells of no containers at first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims.capacity import STEP_BYTES, Capacity, capacity, own_bytes
from nvshare.deviceplugin.settled import Settled


@dataclass(frozen=True, slots=True)
class _Told:
    """Of one GPU; the memory in steps."""

    own: int
    host: int
    held: int


@dataclass(slots=True)
class _Gpu:
    settled: tuple[Settled, ...]
    capacity: Capacity | None = None
    told: tuple[int, ...] = field(default=())


class Capacities:
    """Those of a node's GPUs."""

    def __init__(
        self, status: Callable[[], admin_pb2.Status | None], overcommit: float, clock: Callable[[], float]
    ) -> None:
        """``status``: None while the scheduler does not tell it. ``clock`` is monotonic, in seconds."""
        self._status = status
        self._overcommit = overcommit
        self._clock = clock
        self._gpus: dict[str, _Gpu] = {}

    @property
    def known(self) -> bool:
        """Whether the scheduler has told of any GPU."""
        return bool(self._gpus)

    def of(self, uuid: str) -> Capacity | None:
        """What claims may have of a GPU; None: nothing, or it is not known."""
        gpu = self._gpus.get(uuid)
        return None if gpu is None else gpu.capacity

    def own_bytes(self, uuid: str) -> int | None:
        """What the GPU itself has for claims; None: that is not known."""
        gpu = self._gpus.get(uuid)
        if gpu is None:
            return None
        return 0 if gpu.capacity is None else gpu.capacity.own_bytes

    def bring_up_to_date(self, shares: Mapping[str, int]) -> None:
        """Looks at the scheduler's status; to be called about once a second.

        ``shares``: the GPUs that are offered, and how many virtual devices each has.
        """
        status, now = self._status(), self._clock()
        # A scheduler of an older version does not know, and one that has just begun has not heard kubelet yet.
        if status is None or not status.knows_allocations:
            return
        host = status.host_memory_bytes // max(1, len(status.devices))
        for device in status.devices:
            count = shares.get(device.uuid)
            if count is not None and device.total_bytes:
                self._take(device.uuid, _told(device, host, count), count, now)

    def _take(self, uuid: str, told: _Told, shares: int, now: float) -> None:
        numbers = (told.own, told.host, told.held)
        gpu = self._gpus.get(uuid)
        if gpu is None:
            self._gpus[uuid] = gpu = _Gpu(tuple(Settled(number) for number in numbers))
        settled = tuple(each.take(number, now) for each, number in zip(gpu.settled, numbers, strict=True))
        if settled != gpu.told:
            own, host, held = gpu.told = settled
            gpu.capacity = capacity(own * STEP_BYTES, host * STEP_BYTES, shares, held, self._overcommit)


def _told(device: admin_pb2.Device, host_bytes: int, shares: int) -> _Told:
    reserve_bytes = max(device.reserve_bytes, device.swap_reserve_bytes)
    own = own_bytes(device.total_bytes, reserve_bytes, device.foreign_bytes, device.assumed_context_bytes, shares)
    held = {device_id for each in device.allocations if not each.claim for device_id in each.virtual_device_ids}
    return _Told(own // STEP_BYTES, host_bytes // STEP_BYTES, len(held))

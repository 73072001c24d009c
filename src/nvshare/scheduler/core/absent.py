"""Who is not here and counts all the same: recorded clients of the scheduler before."""

from __future__ import annotations

from collections.abc import Mapping

from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ClientRegistered,
    HolderDied,
    HolderRecorded,
    ResidentRecorded,
    ResidentSettled,
)
from nvshare.scheduler.core.records.client import LostTurn
from nvshare.scheduler.core.records.host import Host


class Absent:
    """Those of all devices. What is illegal raises IllegalEvent and changes nothing."""

    def __init__(self, devices: Mapping[str, Device], host: Host) -> None:
        """``devices``: all there are, by UUID."""
        self._devices, self._host = devices, host

    @property
    def holders(self) -> int:
        """How many recorded holders are not back."""
        return sum(len(device.lock.awaited) for device in self._devices.values())

    def record_holder(self, event: HolderRecorded, device: Device, turn: LostTurn | None) -> None:
        """A recorded holder is not back; ``turn``: of a client of this scheduler."""
        if self._awaits(event.grant) is not None:
            raise IllegalEvent(f"grant {event.grant} is recorded already", event)
        device.lock.await_holder(event.grant, turn)

    def holder_is_back(self, grant: int, device: Device, event: ClientRegistered) -> LostTurn | None:
        """A recorded holder registered; returns its turn, if this scheduler gave it."""
        if grant not in device.lock.awaited:
            raise IllegalEvent(f"grant {grant} is not awaited on device {device.uuid}", event)
        return device.lock.await_no_more(grant)

    def holder_died(self, event: HolderDied) -> Device:
        """A recorded holder will not come back; returns its device."""
        device = self._awaits(event.grant)
        if device is None:
            raise IllegalEvent(f"grant {event.grant} is not awaited", event)
        device.lock.await_no_more(event.grant)
        return device

    def record_resident(self, event: ResidentRecorded, device: Device) -> None:
        """A recorded client that swaps is not back."""
        if event.record in self._host.awaited:
            raise IllegalEvent(f"record {event.record} is awaited already", event)
        self._host.await_client(event.record, device.uuid)

    def resident_settled(self, event: ResidentSettled) -> Device:
        """A recorded client that swaps is back or will not come; returns its device."""
        if event.record not in self._host.awaited:
            raise IllegalEvent(f"record {event.record} is not awaited", event)
        return self._devices[self._host.await_no_more(event.record)]

    def _awaits(self, grant: int) -> Device | None:
        return next((device for device in self._devices.values() if grant in device.lock.awaited), None)

"""Who is not here and counts all the same: recorded clients of the scheduler before."""

from __future__ import annotations

from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import (
    ClientRegistered,
    HolderDied,
    HolderRecorded,
    ResidentRecorded,
    ResidentSettled,
)
from nvshare.scheduler.core.records.arenas import Host
from nvshare.scheduler.core.records.client import LostTurn


class Absent:
    """Those of all devices. What is illegal raises IllegalEvent and changes nothing."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._holders: dict[int, tuple[Device, LostTurn | None]] = {}
        """The devices of recorded holders, by grant, and their turns; None: a scheduler before this one gave it."""
        self._residents: dict[int, Device] = {}
        """The devices of recorded clients that swap, by record."""

    @property
    def holders(self) -> int:
        """How many recorded holders are not back."""
        return len(self._holders)

    def record_holder(self, event: HolderRecorded, device: Device, turn: LostTurn | None) -> None:
        """A recorded holder is not back; ``turn``: of a client of this scheduler."""
        if event.grant in self._holders:
            raise IllegalEvent(f"grant {event.grant} is recorded already", event)
        self._holders[event.grant] = device, turn
        device.lock.awaited += 1

    def holder_is_back(self, grant: int, device: Device, event: ClientRegistered) -> LostTurn | None:
        """A recorded holder registered; returns its turn, if this scheduler gave it."""
        known, turn = self._holders.get(grant, (None, None))
        if known is not device:
            raise IllegalEvent(f"grant {grant} is not awaited on device {device.uuid}", event)
        del self._holders[grant]
        device.lock.awaited -= 1
        return turn

    def holder_died(self, event: HolderDied) -> Device:
        """A recorded holder will not come back; returns its device."""
        if event.grant not in self._holders:
            raise IllegalEvent(f"grant {event.grant} is not awaited", event)
        device, _ = self._holders.pop(event.grant)
        device.lock.awaited -= 1
        return device

    def record_resident(self, event: ResidentRecorded, device: Device) -> None:
        """A recorded client that swaps is not back."""
        if event.record in self._residents:
            raise IllegalEvent(f"record {event.record} is awaited already", event)
        self._residents[event.record] = device
        device.residency.awaited += 1
        self._host.awaited += 1

    def resident_settled(self, event: ResidentSettled) -> Device:
        """A recorded client that swaps is back or will not come; returns its device."""
        if event.record not in self._residents:
            raise IllegalEvent(f"record {event.record} is not awaited", event)
        device = self._residents.pop(event.record)
        device.residency.awaited -= 1
        self._host.awaited -= 1
        return device

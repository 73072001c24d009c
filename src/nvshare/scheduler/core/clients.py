"""All registered clients, each with its device."""

from __future__ import annotations

from collections.abc import Iterable

from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.records.client import Client

Member = tuple[Client, Device]


class Clients(dict[int, Member]):
    """By number. Only ``Core`` adds one, or takes one out."""

    def members(self, numbers: Iterable[int]) -> list[Member]:
        """These, each with its device."""
        return [self[number] for number in numbers]

    def of(self, numbers: Iterable[int]) -> list[Client]:
        """These alone."""
        return [self[number][0] for number in numbers]

    def devices_of(self, numbers: Iterable[int]) -> list[Device]:
        """The device of each."""
        return [self[number][1] for number in numbers]

    def device_of(self, client: Client) -> Device:
        """Where one is."""
        return self[client.number][1]

    @property
    def devices(self) -> list[Device]:
        """All that have clients."""
        return list(dict.fromkeys(device for _, device in self.values()))

"""What clients of one device had that are gone, until it is known to be free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.records.memory import Memory


@dataclass(frozen=True, slots=True)
class Estate:
    """What one of them had. If its process lives it may come back with that."""

    memory: Memory
    container: str
    """The name of its container; empty: it had none but its own."""
    charge_bytes: int
    """What it may have had on the device that can move."""

    @property
    def device_bytes(self) -> int:
        """What it may have had there in all."""
        return self.memory.fixed_bytes + self.charge_bytes


class Estates:
    """Those of one device, by the clients' numbers; they count in its ledger and in the host memory."""

    def __init__(self, ledger: Ledger, host: Host) -> None:
        self._ledger = ledger
        self._host = host
        self._estates: dict[int, Estate] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._estates

    def __iter__(self) -> Iterator[Estate]:
        return iter(self._estates.values())

    def add(self, client: Client) -> None:
        """A client is gone."""
        memory = client.memory
        paged_bytes = memory.movable_bytes if client.holds and not memory.swaps else 0
        estate = Estate(memory, client.container.name, memory.charge_bytes + paged_bytes)
        self._estates[client.number] = estate
        self._ledger.depart(estate.device_bytes)
        self._host.depart(memory)

    def free(self, number: int) -> Estate | None:
        """Nothing of a client that is gone is left; returns what that was, None if there was nothing."""
        estate = self._estates.pop(number, None)
        if estate is None:
            return None
        self._ledger.depart(-estate.device_bytes)
        self._host.free(estate.memory)
        return estate

    def free_all(self) -> None:
        """The device is forgotten."""
        for number in list(self._estates):
            self.free(number)

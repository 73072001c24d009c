"""What clients of one device had that are gone, until it is known to be free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.records.arenas import Host


@dataclass(frozen=True, slots=True)
class Estate:
    """What one of them had."""

    device_bytes: int
    """On the device, or may have been."""
    charge_bytes: int
    """Of that, what can move."""
    arena_bytes: int
    """Of host memory."""
    pledged_bytes: int
    """How much of what can move it may have. If its process lives it comes back with that, which must fit then."""
    container: str
    """The name of its container; empty: it had none but its own."""
    claimed_bytes: int
    """What it might have allocated of its container's limit."""


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

    def add(self, number: int, estate: Estate) -> None:
        """A client is gone."""
        self._estates[number] = estate
        self._ledger.depart(estate.device_bytes)
        self._host.departed_bytes += estate.arena_bytes

    def free(self, number: int) -> Estate | None:
        """Nothing of a client that is gone is left; returns what that was, None if there was nothing."""
        estate = self._estates.pop(number, None)
        if estate is None:
            return None
        self._ledger.depart(-estate.device_bytes)
        self._host.used_bytes -= estate.arena_bytes
        self._host.departed_bytes -= estate.arena_bytes
        return estate

    def free_all(self) -> None:
        """The device is forgotten."""
        for number in list(self._estates):
            self.free(number)

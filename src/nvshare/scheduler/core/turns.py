"""In which order those who wait for a device get it, and for how long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from nvshare.scheduler.core.client import Client


class Turns:
    """The waiters of one device: first come, first served."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Client] = OrderedDict()

    def __iter__(self) -> Iterator[Client]:
        return iter(self._waiting.values())

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, client: Client) -> None:
        """A client began to wait."""
        self._waiting[client.number] = client

    def remove(self, client: Client) -> None:
        """A client does not wait any more; it did."""
        del self._waiting[client.number]

    def end(self, holders: Sequence[Client], quantum_seconds: float) -> float:
        """When these holders, in the order of their grants, have had their quantum."""
        return holders[-1].since + quantum_seconds

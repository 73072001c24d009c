"""In which order those who wait for a device get it, and for how long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.gang import Gang


class Turns:
    """The waiters of one device: first come, first served."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Client] = OrderedDict()

    def __iter__(self) -> Iterator[Client]:
        return iter(self._waiting.values())

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, client: Client) -> bool:
        return client.number in self._waiting

    def add(self, client: Client) -> None:
        """A client began to wait. One of a gang may come late and have an early ticket."""
        last = next(reversed(self._waiting.values()), None)
        self._waiting[client.number] = client
        if last is not None and last.ticket > client.ticket:
            self._waiting = OrderedDict(sorted(self._waiting.items(), key=lambda item: item[1].ticket))

    def line_up(self, client: Client, leads: bool, beside: tuple[Client, ...]) -> None:
        """Whether a client of a gang is in line now, and who comes in with it."""
        client.beside = beside
        if leads and client not in self:
            self.add(client)
        elif not leads and client in self:
            self.remove(client)

    def in_turn(self) -> Iterator[Client]:
        """Those that wait, but for gangs that are passed over."""
        return (client for client in self if client.gang is None or not client.gang.is_passed_over)

    def gangs_before(self, client: Client) -> tuple[Gang, ...]:
        """The gangs on several devices that are before one that waits."""
        found: list[Gang] = []
        for each in self:
            if each is client:
                break
            if each.gang is not None and each.gang.wide:
                found.append(each.gang)
        return tuple(found)

    def remove(self, client: Client) -> None:
        """A client does not wait any more; it did."""
        del self._waiting[client.number]

    def end(self, holders: Sequence[Client], quantum_seconds: float) -> float:
        """When these holders, in the order of their grants, have had their quantum."""
        return holders[-1].since + quantum_seconds

"""Which of a device's clients, of those whose memory swaps, a plan has to look at: those that have something there.

A program that is idle for long has nothing on the device, host memory for all that it has, and nothing to say. So what
an event costs does not grow with the number of such programs. Only growths count them.
"""

from __future__ import annotations

from nvshare.scheduler.core.records.client import Client


class Present:
    """Those of one device."""

    def __init__(self) -> None:
        self.clients: dict[int, Client] = {}
        """In the order in which they came."""
        self.settled_bytes = 0
        """How much host memory is of use to the others."""
        self._places: dict[int, int] = {}
        """The place of each client among all that ever came."""
        self._came = 0
        self._settled: dict[int, tuple[Client, int]] = {}
        """The others, each with what it counts in ``settled_bytes``."""
        self._most_admitted_bytes = 0
        """None of the others was admitted more."""

    def wake(self, client: Client) -> None:
        """Something about a client that swaps changes: it may have something on the device soon."""
        number = client.number
        if number in self.clients:
            return
        if number not in self._places:
            self._came += 1
            self._places[number] = self._came
        _, useful_bytes = self._settled.pop(number, (None, 0))
        self.settled_bytes -= useful_bytes
        later = [other for other in self.clients if self._places[other] > self._places[number]]
        self.clients[number] = client
        for other in later:
            self.clients[other] = self.clients.pop(other)

    def remove(self, number: int) -> None:
        """A client is gone."""
        self._places.pop(number, None)
        self.clients.pop(number, None)
        self.settled_bytes -= self._settled.pop(number, (None, 0))[1]

    def leave_out_settled(self) -> None:
        """Leaves out those that have nothing on the device now, but not holders: theirs is to come in."""
        for client in [each for each in self.clients.values() if each.memory.is_settled and not each.holds]:
            memory = client.memory
            del self.clients[client.number]
            self._settled[client.number] = client, memory.useful_bytes
            self.settled_bytes += memory.useful_bytes
            self._most_admitted_bytes = max(self._most_admitted_bytes, memory.admitted_bytes)

    def are_all_within(self, admitted_bytes: int) -> bool:
        """Whether none of the others was admitted more than so much."""
        if self._most_admitted_bytes > admitted_bytes:
            sizes = (client.memory.admitted_bytes for client, _ in self._settled.values())
            self._most_admitted_bytes = max(sizes, default=0)
        return self._most_admitted_bytes <= admitted_bytes

"""What clients whose memory swaps need beside the core's decisions, from REGISTER until their memory is free.

They need host memory and a place in the record of such clients. Their memory counts as long as it is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from nvshare.log import Log
from nvshare.scheduler.arenas.arenas import Arenas
from nvshare.scheduler.arenas.choice import HostBudget
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.core.actions import GrowArena, Measure
from nvshare.scheduler.core.events import MemoryFreed, ResidentSettled
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.recovery.awaited import Process
from nvshare.scheduler.recovery.record import Record, Recorded
from nvshare.scheduler.recovery.swappers import Departed, Returning
from nvshare.scheduler.registered_client import RegisteredClient

SWAP = "swap"
"""The backend of these clients."""


class Swapping:
    """All clients whose memory swaps."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        dispatcher: Dispatcher,
        limits: MemoryLimits,
        host_budget: HostBudget,
        record: Record,
        former: Sequence[Recorded],
        is_measured: Callable[[str], bool],
    ) -> None:
        """``host_budget``: what all arenas together may have. ``former``: those in the record, of whom the core knows.

        ``is_measured``: whether a device's memory is measured; then ``measure_soon`` is set before the loop runs.
        """
        self._dispatcher = dispatcher
        self._record = record
        self._swappers: Counter[str] = Counter()
        """How many of each device's clients swap."""
        self._before_first = max((each.number for each in record.found), default=0)
        """The clients' numbers in the record come after this one."""
        self._arenas = Arenas(
            loop, log, limits, host_budget.bytes(), lambda: dispatcher.clients, dispatcher.host_memory, dispatcher.feed
        )
        self._host_budget = host_budget
        self._had_bytes = 0
        """Of host memory, by those of the former scheduler that are back."""
        self.returning = Returning(former, loop, log, is_measured, self._measure, self._settled)
        self.departed = Departed(loop, is_measured, self._measure, self._freed)
        self.measure_soon: Callable[[], None] | None = None

    def see_to_memory(self, action: GrowArena | Measure) -> None:
        """A client is to have more host memory, or a device is to be measured."""
        match action:
            case GrowArena():
                self._arenas.grow(action)
            case Measure():
                self._measure()

    def comes(self, number: int, client: RegisteredClient) -> None:
        """A client is about to be registered: it is recorded before it has anything."""
        if client.backend == SWAP:
            command = client.description.command
            key = self._before_first + number
            self._record.add(Recorded(client.device, key, client.pid, client.started, command))

    def refused(self, number: int) -> None:
        """It was not registered."""
        self._record.erase(self._before_first + number)

    def came(self, client: RegisteredClient) -> None:
        """It is registered."""
        self._swappers[client.device] += client.backend == SWAP
        if client.backend != SWAP:
            self._back(client)

    def told(self, client: RegisteredClient, host_bytes: int) -> None:
        """One whose memory swaps has said for the first time what it has; before, nobody knows what is left for others.

        ``host_bytes``: its host memory, which was in use when the budget was made if it is of the former scheduler.
        """
        if host_bytes and self.returning.awaits(_process(client)):
            self._had_bytes += host_bytes
            self._arenas.set_budget(self._host_budget.bytes(self._had_bytes))
        self._back(client)

    def left(self, number: int, client: RegisteredClient) -> None:
        """A client's connection ended, and the core knows."""
        # Beside those that swap the memory of the others counts until it is free, too.
        if self._swappers[client.device]:
            self.departed.left(number, _process(client))
        if client.backend == SWAP:
            self._arenas.forget(number)
            self._swappers[client.device] -= 1
        if not self._swappers[client.device]:
            del self._swappers[client.device]

    def stop(self) -> None:
        """Begins nothing more, and watches nobody any more."""
        self._arenas.stop()
        self.returning.stop()
        self.departed.stop()

    def _back(self, client: RegisteredClient) -> None:
        """Whatever the client's process had before is the client's."""
        self.returning.back(_process(client))
        self.departed.back(_process(client))

    def _measure(self) -> None:
        if self.measure_soon is not None:
            self.measure_soon()

    def _settled(self, number: int) -> None:
        self._record.erase(number)
        self._dispatcher.feed(ResidentSettled(number))
        # What it has may be foreign now.
        self._measure()

    def _freed(self, number: int) -> None:
        self._record.erase(self._before_first + number)
        self._dispatcher.feed(MemoryFreed(number))


def _process(client: RegisteredClient) -> Process:
    return Process(client.device, client.pid, client.started)

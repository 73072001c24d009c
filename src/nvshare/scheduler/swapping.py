"""What clients whose memory swaps need beside the core's decisions, from REGISTER until their memory is free.

They need host memory and a place in the record of such clients. Their memory counts as long as it is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from nvshare.log import Log
from nvshare.protocol import wire
from nvshare.scheduler.arenas.arenas import Arenas
from nvshare.scheduler.arenas.choice import HostBudget
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.arenas.sharing import Sharing
from nvshare.scheduler.arenas.storing import Storing
from nvshare.scheduler.core.actions import GrowArena, Measure, MemoryAction, ShareArena, StoreArena
from nvshare.scheduler.core.events import MemoryFreed, ResidentSettled
from nvshare.scheduler.core.snapshot import ShownState
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
        files_in: Path | None,
        record: Record,
        former: Sequence[Recorded],
        is_measured: Callable[[str], bool],
        cpus_near: Callable[[str], frozenset[int]],
    ) -> None:
        """``host_budget``: what all arenas together may have; ``files_in``: where they may be in files, if anywhere.

        ``former``: those in the record, of whom the core knows.
        ``is_measured``: whether a device's memory is measured; then ``measure_soon`` is set before the loop runs.
        ``cpus_near``: those of a device's NUMA node, as far as they are known.
        """
        self._dispatcher = dispatcher
        self._record = record
        self._swappers: Counter[str] = Counter()
        """How many of each device's clients swap."""
        self._before_first = max((each.number for each in record.found), default=0)
        """The clients' numbers in the record come after this one."""
        self._arenas = Arenas(
            loop,
            log,
            limits,
            host_budget.bytes(),
            lambda: dispatcher.clients,
            dispatcher.host_memory,
            dispatcher.feed,
            cpus_near,
        )
        self.storing = Storing(
            loop,
            log,
            files_in,
            lambda: dispatcher.clients,
            self._arena_bytes,
            dispatcher.feed,
            self._had_in_file,
        )
        self.sharing = Sharing(
            loop,
            log,
            lambda: dispatcher.clients,
            lambda: self._arenas.filling,
            self._arena_bytes,
            lambda number: dispatcher.client(number).state is ShownState.ASLEEP,
            dispatcher.feed,
            self._had_in_pack,
        )
        self._host_budget = host_budget
        self._had_bytes = 0
        """Of host memory, by those of the former scheduler that are back."""
        self._had: dict[Process, int] = {}
        """Of it, what each of them had, as long as it has said no more than that."""
        self._had_packs: set[int] = set()
        """The packs in which they had some."""
        self.returning = Returning(former, loop, log, is_measured, self._measure, self._settled)
        self.departed = Departed(loop, is_measured, self._measure, self._freed)
        self.measure_soon: Callable[[], None] | None = None

    def see_to_memory(self, action: MemoryAction) -> None:
        """A client is to have more host memory, or a file or pack instead, or a device is to be measured."""
        match action:
            case GrowArena():
                self.storing.grows(action.client)
                self.sharing.grows(action.client)
                self._arenas.grow(action)
            case StoreArena():
                self.storing.store(action)
            case ShareArena():
                self.sharing.share(action)
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
            self._had[_process(client)] = host_bytes
            self._count_as_had(host_bytes)
        self._back(client)

    def left(self, number: int, client: RegisteredClient) -> None:
        """A client's connection ended, and the core knows."""
        # Beside those that swap the memory of the others counts until it is free, too.
        if self._swappers[client.device]:
            self.departed.left(number, _process(client))
        if client.backend == SWAP:
            self._arenas.forget(number)
            self.storing.forget(number)
            self.sharing.forget(number)
            self._had.pop(_process(client), None)
            self._swappers[client.device] -= 1
        if not self._swappers[client.device]:
            del self._swappers[client.device]

    def stop(self) -> None:
        """Begins nothing more, and watches nobody any more."""
        self._arenas.stop()
        self.storing.stop()
        self.sharing.stop()
        self.returning.stop()
        self.departed.stop()

    def _had_in_file(self, number: int) -> None:
        """What a client has said first that it has was no host memory: it is in its file."""
        self._count_as_had(-self._had.pop(_process(self._dispatcher.clients[number]), 0))

    def _had_in_pack(self, number: int, frame: wire.Deduped) -> None:
        """The same of a part of that; the pack was made with host memory, once."""
        process = _process(self._dispatcher.clients[number])
        if process in self._had:
            self._had[process] -= frame.away_bytes
            is_new = frame.pack not in self._had_packs
            self._had_packs.add(frame.pack)
            self._count_as_had(frame.pack_bytes * is_new - frame.away_bytes)

    def _count_as_had(self, more_bytes: int) -> None:
        if more_bytes:
            self._had_bytes += more_bytes
            self._arenas.set_budget(self._host_budget.bytes(self._had_bytes))

    def _arena_bytes(self, number: int) -> int:
        swap = self._dispatcher.client(number).swap
        return 0 if swap is None else swap.arena_bytes

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

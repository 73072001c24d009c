"""Carries out GrowArena: segments are made, filled and sent, and the core hears of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from nvshare import display
from nvshare.log import Log
from nvshare.scheduler.arenas.filling import Failed, Fill, Filling
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.core.events import ArenaGrown, HostMemorySet
from nvshare.scheduler.core.records.arenas import SEGMENT_BYTES
from nvshare.scheduler.core.snapshot import HostMemory
from nvshare.scheduler.registered_client import Delivery, RegisteredClient
from nvshare.scheduler.worker import Worker

_MOST_WORKERS = 4
_CPUS_OF_A_WORKER = 2
_SEND_AGAIN_SECONDS = 0.05
"""After so long without room for one more descriptor on its way."""
_TRY_AGAIN_SECONDS = 30.0
"""After so long without enough memory it is seen whether there is more now."""


@dataclass(slots=True, eq=False)
class _Growth:
    """What a GrowArena asked for, on its way to its client."""

    action: GrowArena
    fills: list[Fill] = field(default_factory=list)
    open: int = 0
    """Segments of which it is not known yet whether the client has them."""
    sent_bytes: int = 0


class Arenas:
    """The segments that are on their way to clients."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        limits: MemoryLimits,
        budget_bytes: int,
        clients: Callable[[], Mapping[int, RegisteredClient]],
        host_memory: Callable[[], HostMemory],
        feed: Callable[[ArenaGrown | HostMemorySet], None],
        cpus_near: Callable[[str], frozenset[int]],
    ) -> None:
        """``budget_bytes`` is what all arenas together may have as long as the machine has it.

        ``cpus_near``: those of a device's NUMA node, as far as they are known.
        """
        self._loop = loop
        self._log = log
        self._limits = limits
        self._budget_bytes = budget_bytes
        self._clients = clients
        self._host_memory = host_memory
        self._feed = feed
        self._cpus_near = cpus_near
        self._filling: Filling | None = None
        self._growths: dict[int, _Growth] = {}
        """By client."""
        self._timer: asyncio.TimerHandle | None = None

    def set_budget(self, budget_bytes: int) -> None:
        """So much all arenas together may have from now on."""
        self._budget_bytes = budget_bytes
        if self._timer is None:
            self._feed(HostMemorySet(budget_bytes))

    def grow(self, action: GrowArena) -> None:
        """Begins with host memory for a client, which has none on its way."""
        growth = self._growths[action.client] = _Growth(action)
        cpus = self._cpus_near(self._clients()[action.client].device)
        for start in range(0, action.segment_bytes, SEGMENT_BYTES):
            size_bytes = min(SEGMENT_BYTES, action.segment_bytes - start)
            growth.open += 1
            growth.fills.append(self.filling.begin(size_bytes, partial(self._filled, growth, size_bytes), cpus=cpus))

    @property
    def filling(self) -> Filling:
        """What fills segments, and packs."""
        if self._filling is None:
            # Most schedulers of single users never need one.
            count = workers_for(len(os.sched_getaffinity(0)))
            self._filling = Filling([Worker(self._loop, "arenas") for _ in range(count)], self._limits)
        return self._filling

    def forget(self, number: int) -> None:
        """A client is gone: what was on its way to it is given back."""
        growth = self._growths.pop(number, None)
        if growth is not None:
            self._give_up(growth)

    def stop(self) -> None:
        """Makes nothing more."""
        for number in list(self._growths):
            self.forget(number)
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self, growth: _Growth) -> None:
        """Nothing more of it is made."""
        fills, growth.fills = growth.fills, []
        for fill in fills:
            if self._filling is not None and self._filling.give_up(fill):
                growth.open -= 1

    def _filled(self, growth: _Growth, size_bytes: int, made: int | Failed) -> None:
        if isinstance(made, Failed):
            self._failed(growth, made)
        else:
            self._send(growth, size_bytes, made)

    def _send(self, growth: _Growth, size_bytes: int, descriptor: int) -> None:
        if self._is_current(growth):
            receiver = self._clients()[growth.action.client].receiver
            receiver.send_arena(descriptor, size_bytes, partial(self._sent, growth, size_bytes, descriptor))
        else:
            self._discard(descriptor)

    def _sent(self, growth: _Growth, size_bytes: int, descriptor: int, delivery: Delivery) -> None:
        match delivery:
            case Delivery.WENT:
                os.close(descriptor)
                growth.sent_bytes += size_bytes
                growth.open -= 1
                self._see_whether_over(growth)
            case Delivery.NOT_NOW:
                self._loop.call_later(_SEND_AGAIN_SECONDS, self._send, growth, size_bytes, descriptor)
            case Delivery.NEVER:
                self._discard(descriptor)
            case _:
                assert_never(delivery)

    def _see_whether_over(self, growth: _Growth) -> None:
        if not growth.open:
            # Later: what the core answers may go to the same connection, which is at work on this.
            self._loop.call_soon(self._tell_over, growth)

    def _tell_over(self, growth: _Growth) -> None:
        if self._is_current(growth):
            del self._growths[growth.action.client]
            self._feed(ArenaGrown(growth.action.client, growth.sent_bytes))

    def _is_current(self, growth: _Growth) -> bool:
        return self._growths.get(growth.action.client) is growth

    def _discard(self, descriptor: int) -> None:
        if self._filling is not None:
            self._filling.discard(descriptor)

    def _failed(self, growth: _Growth, failed: Failed) -> None:
        possible_bytes = failed.room_bytes + sum(fill.filled_bytes for fill in growth.fills)
        budget_bytes = self._host_memory().used_bytes - growth.action.segment_bytes + possible_bytes
        budget_bytes = max(0, min(self._budget_bytes, budget_bytes))
        if self._timer is None:
            self._log.warning(
                "there is less host memory than arenas may have; allocations that need more are refused",
                reason=failed.reason,
                wanted=display.size(self._budget_bytes),
                there=display.size(budget_bytes),
            )
            self._timer = self._loop.call_later(_TRY_AGAIN_SECONDS, self._try_again)
        growth.open -= 1
        self._give_up(growth)
        self._feed(HostMemorySet(budget_bytes))
        self._see_whether_over(growth)

    def _try_again(self) -> None:
        self._timer = None
        self._feed(HostMemorySet(self._budget_bytes))


def workers_for(cpus: int) -> int:
    """How many threads fill segments: programs need the CPUs as well."""
    return min(_MOST_WORKERS, max(1, cpus // _CPUS_OF_A_WORKER))

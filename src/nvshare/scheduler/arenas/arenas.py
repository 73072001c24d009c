"""Carries out GrowArena: a segment is made, filled and sent, and the core hears of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial

from nvshare import display
from nvshare.log import Log
from nvshare.scheduler.arenas.filling import Failed, Fill, Filling
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.core.events import ArenaGrown, HostMemorySet
from nvshare.scheduler.core.snapshot import HostMemory
from nvshare.scheduler.registered_client import RegisteredClient
from nvshare.scheduler.worker import Worker

_MOST_WORKERS = 4
_CPUS_OF_A_WORKER = 4
_TRY_AGAIN_SECONDS = 30.0
"""After so long without enough memory it is seen whether there is more now."""


class Arenas:
    """The segments that are on their way to clients, one a client at most."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        limits: MemoryLimits,
        budget_bytes: int,
        clients: Callable[[], Mapping[int, RegisteredClient]],
        host_memory: Callable[[], HostMemory],
        feed: Callable[[ArenaGrown | HostMemorySet], None],
    ) -> None:
        """``budget_bytes`` is what all arenas together may have as long as the machine has it."""
        self._loop = loop
        self._log = log
        self._limits = limits
        self._budget_bytes = budget_bytes
        self._clients = clients
        self._host_memory = host_memory
        self._feed = feed
        self._filling: Filling | None = None
        self._fills: dict[int, Fill] = {}
        self._timer: asyncio.TimerHandle | None = None

    def grow(self, action: GrowArena) -> None:
        """Begins with a segment for a client, which has none on its way."""
        if self._filling is None:
            # Most schedulers of single users never need one.
            count = min(_MOST_WORKERS, max(1, (os.cpu_count() or 1) // _CPUS_OF_A_WORKER))
            self._filling = Filling([Worker(self._loop, "arenas") for _ in range(count)], self._limits)
        self._fills[action.client] = self._filling.begin(action.segment_bytes, partial(self._filled, action))

    def forget(self, number: int) -> None:
        """A client is gone: what was on its way to it is given back."""
        fill = self._fills.pop(number, None)
        if fill is not None and self._filling is not None:
            self._filling.give_up(fill)

    def stop(self) -> None:
        """Makes nothing more."""
        for number in list(self._fills):
            self.forget(number)
        if self._timer is not None:
            self._timer.cancel()

    def _filled(self, action: GrowArena, made: int | Failed) -> None:
        del self._fills[action.client]
        if isinstance(made, Failed):
            self._failed(action, made)
        else:
            receiver = self._clients()[action.client].receiver
            receiver.send_arena(made, action.segment_bytes, partial(self._sent, action, made))

    def _sent(self, action: GrowArena, descriptor: int, went: bool) -> None:
        if went:
            os.close(descriptor)
            # Later: what the core answers may go to the same connection, which is at work on this.
            self._loop.call_soon(self._tell_sent, action)
        elif self._filling is not None:
            self._filling.discard(descriptor)

    def _tell_sent(self, action: GrowArena) -> None:
        if action.client in self._clients():
            self._feed(ArenaGrown(action.client, action.segment_bytes))

    def _failed(self, action: GrowArena, failed: Failed) -> None:
        used_bytes = self._host_memory().used_bytes
        budget_bytes = max(0, min(self._budget_bytes, used_bytes - action.segment_bytes + failed.possible_bytes))
        if self._timer is None:
            self._log.warning(
                "there is less host memory than arenas may have; allocations that need more are refused",
                reason=failed.reason,
                wanted=display.size(self._budget_bytes),
                there=display.size(budget_bytes),
            )
            self._timer = self._loop.call_later(_TRY_AGAIN_SECONDS, self._try_again)
        self._feed(HostMemorySet(budget_bytes))
        self._feed(ArenaGrown(action.client, 0))

    def _try_again(self) -> None:
        self._timer = None
        self._feed(HostMemorySet(self._budget_bytes))

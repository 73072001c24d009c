"""What the clients whose memory swaps need beside the core's decisions: host memory, from REGISTER to their end."""

from __future__ import annotations

import asyncio

from nvshare.log import Log
from nvshare.scheduler.arenas.arenas import Arenas
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.core.actions import GrowArena
from nvshare.scheduler.dispatcher import Dispatcher


class Swapping:
    """All clients whose memory swaps."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        dispatcher: Dispatcher,
        limits: MemoryLimits,
        host_bytes: int,
    ) -> None:
        """``host_bytes``: what all arenas together may have."""
        self._arenas = Arenas(
            loop, log, limits, host_bytes, lambda: dispatcher.clients, dispatcher.host_memory, dispatcher.feed
        )

    def grow_arena(self, action: GrowArena) -> None:
        """A client is to have more host memory."""
        self._arenas.grow(action)

    def left(self, number: int) -> None:
        """A client's connection ended, whatever its backend."""
        self._arenas.forget(number)

    def stop(self) -> None:
        """Begins nothing more."""
        self._arenas.stop()

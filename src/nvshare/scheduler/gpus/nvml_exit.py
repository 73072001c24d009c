"""Ends a scheduler whose NVML stays away although there is a GPU: the driver comes only with a new container."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch

_SHORTEST_SECONDS = 0.1
_LONGEST_SECONDS = 60.0


class NvmlExit:
    """Calls ``end`` when NVML was away for long and nobody uses the scheduler."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        nvml: NvmlWatch,
        dispatcher: Dispatcher,
        end: Callable[[], None],
        seconds: float,
    ) -> None:
        """``seconds``: how long NVML has to be away."""
        self.reason: str | None = None
        """Why it ended; None: it did not."""
        self._loop = loop
        self._nvml = nvml
        self._dispatcher = dispatcher
        self._end = end
        self._look_seconds = min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, seconds))
        self._timer = loop.call_soon(self._look)

    def close(self) -> None:
        """Looks no more."""
        self._timer.cancel()

    def _look(self) -> None:
        # Programs that run have a driver: for them this scheduler does what it can.
        if not self._dispatcher.clients:
            self.reason = self._nvml.gave_up()
        if self.reason is not None:
            self._end()
        else:
            self._timer = self._loop.call_later(self._look_seconds, self._look)

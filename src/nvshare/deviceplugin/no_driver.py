"""In the driver's place where claims can't be served at all: says what is missing, and is never ready."""

from __future__ import annotations

import asyncio

from nvshare.deviceplugin.metrics import Metrics
from nvshare.log import Log, LogLines


class NoDriver:
    """Waits for other settings, or for the container to be made anew."""

    can_follow = False
    """A plugin that serves goes on."""

    def __init__(self, missing: str, log: Log, lines: LogLines) -> None:
        """``missing``: what is, and what to do. ``lines`` are the log's. Needs a running event loop."""
        self._missing = f"allocation dra can't be served: {missing}"
        self._log = log
        self._stop = asyncio.Event()
        self.metrics = Metrics(lambda: lines.dropped)

    def notes(self) -> list[str]:
        """Nothing: what is wrong makes it unready."""
        return []

    def unready(self) -> list[str]:
        """What is missing."""
        return [self._missing]

    def stop(self, *, for_good: bool) -> None:
        """Ends ``run``."""
        self._stop.set()

    async def run(self) -> None:
        """Until ``stop``."""
        self._log.error(self._missing)
        self.metrics.problem("kubelet", present=True)
        await self._stop.wait()

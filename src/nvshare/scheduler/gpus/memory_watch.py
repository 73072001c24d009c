"""Measures the devices' memory, every two seconds where there are clients, and tells the core what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import memory, queries
from nvshare.scheduler.gpus.memory import Usage
from nvshare.scheduler.worker import Worker

_INTERVAL_SECONDS = 2.0
_UNUSED_EVERY = 5
"""A device without clients is measured in one of this many rounds: only people look at it."""


class MemoryWatch:
    """NVML is asked in a worker; while an answer is outstanding nothing more is asked."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, worker: Worker, dispatcher: Dispatcher, known: Mapping[str, object]
    ) -> None:
        """``known``: the devices that NVML knows; there may be more later."""
        self._loop = loop
        self._worker = worker
        self._dispatcher = dispatcher
        self._known = known
        self._round = 0
        self.measured: set[str] = set()
        """The devices whose memory NVML said when it was asked last."""
        self._timer = loop.call_later(0, self._ask)

    def stop(self) -> None:
        """Asks no more."""
        self._timer.cancel()

    def _ask(self) -> None:
        used = {client.device for client in self._dispatcher.clients.values()}
        known = self._known.keys()
        devices = sorted(known if self._round % _UNUSED_EVERY == 0 else used & known)
        self._round += 1
        if devices:
            self._worker.submit(lambda: {device: queries.usage(device) for device in devices}, self._answered)
        else:
            self._ask_later()

    def _answered(self, usages: dict[str, Usage | None]) -> None:
        self.measured.difference_update(usages)
        self.measured.update(device for device, usage in usages.items() if usage is not None)
        clients = self._dispatcher.clients
        processes = {number: memory.Process(client.pid, client.backend) for number, client in clients.items()}
        for snapshot in self._dispatcher.snapshot():
            usage = usages.get(snapshot.device)
            for event in memory.measured(snapshot, processes, usage) if usage is not None else ():
                self._dispatcher.feed(event)
        self._ask_later()

    def _ask_later(self) -> None:
        self._timer = self._loop.call_later(_INTERVAL_SECONDS, self._ask)

"""Asks kubelet every few seconds which containers hold virtual devices, and remembers its last answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nvshare.log import Log
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import names
from nvshare.scheduler.gpus.names import NamedDevice
from nvshare.scheduler.pods.allocations import Holding, without_client
from nvshare.scheduler.pods.pod_resources import KubeletError, read_holdings
from nvshare.scheduler.worker import Worker

_INTERVAL_SECONDS = 3.0


class AllocationWatch:
    """kubelet is asked in a worker; while an answer is outstanding nothing more is asked."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        worker: Worker,
        dispatcher: Dispatcher,
        device: Callable[[bytes], NamedDevice],
        socket: Path,
        log: Log,
    ) -> None:
        """``device``: what is known of the GPU with these 16 bytes as its UUID."""
        self._loop = loop
        self._worker = worker
        self._dispatcher = dispatcher
        self._device = device
        self._socket = socket
        self._log = log
        self._failing = False
        self._holdings: tuple[Holding, ...] = ()
        self._timer = loop.call_soon(self._ask)

    def stop(self) -> None:
        """Asks no more."""
        self._timer.cancel()

    def without_client(self) -> dict[str, list[Holding]]:
        """The containers that hold virtual devices of a device and have no client on it, by device."""
        clients = self._dispatcher.clients.values()
        return without_client(self._holdings, ((each.device, each.description.identity) for each in clients))

    def _ask(self) -> None:
        self._worker.submit(self._read, self._answered)

    def _read(self) -> tuple[Holding, ...] | KubeletError:
        try:
            return read_holdings(self._socket)
        except KubeletError as error:
            return error

    def _answered(self, answer: tuple[Holding, ...] | KubeletError) -> None:
        # While kubelet restarts, its last answer is still true.
        if isinstance(answer, KubeletError):
            if not self._failing:
                self._log.warning(
                    "kubelet does not say which containers hold virtual devices",
                    socket=str(self._socket),
                    reason=str(answer),
                )
            self._failing = True
        else:
            self._failing = False
            self._take(tuple(filter(None, map(self._known, answer))))
        self._timer = self._loop.call_later(_INTERVAL_SECONDS, self._ask)

    def _take(self, holdings: tuple[Holding, ...]) -> None:
        if holdings != self._holdings:
            self._holdings = holdings
            self._dispatcher.announce()

    def _known(self, holding: Holding) -> Holding | None:
        """The holding under its device's name here, and makes the device known; None if that can't be."""
        try:
            device = self._device(names.device_bytes(holding.device))
            self._dispatcher.make_known(device.name, device.total_bytes)
        except ValueError:
            return None
        return replace(holding, device=device.name)

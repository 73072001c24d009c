"""The scheduler's ``/metrics``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from nvshare.http import HttpServer
from nvshare.paths import RunDir
from nvshare.scheduler.api.container_metrics import ContainerCollector
from nvshare.scheduler.api.container_usage import ContainerUsage, Usage
from nvshare.scheduler.api.histograms import TurnHistograms
from nvshare.scheduler.api.metrics import SchedulerCollector
from nvshare.scheduler.api.scheduler_snapshot import SchedulerSnapshot
from nvshare.scheduler.dispatcher import Dispatcher

_PAUSE_PER_COST = 20.0
"""A snapshot is used again for this many times what it cost to make: however many scrape, that takes at most 5 %."""


class Probes:
    """The pages of one scheduler. What they show is read in the event loop, and written as text in a thread."""

    def __init__(
        self,
        address: str,
        run_dir: RunDir,
        version: str,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[], SchedulerSnapshot],
        crowded: Callable[[], str],
        notes: Callable[[], list[str]],
    ) -> None:
        """``crowded`` says why there is no room for one more client, and nothing when there is.

        ``notes`` are shown beside that.

        Raises AddressError when nobody can listen at ``address``.
        """
        self._run_dir = run_dir
        self._loop = loop
        self._take = take
        self._crowded = crowded
        self._writing = asyncio.Lock()
        self._latest: SchedulerSnapshot | None = None
        self._fresh_until = 0.0
        self._turns: TurnHistograms | None = None
        self._usage: ContainerUsage | None = None
        self._containers: tuple[Usage, ...] = ()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(SchedulerCollector(version, self._snapshot))
        self._registry.register(ContainerCollector(lambda: self._containers))
        self._server = HttpServer(address, self._metrics, self._unready, notes)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    def follow(self, dispatcher: Dispatcher) -> None:
        """Measures what this one's clients do; to be called once, before there are any."""
        self._turns = TurnHistograms(lambda: dispatcher.clients, self._loop.time)
        self._usage = ContainerUsage(lambda: dispatcher.clients, self._loop.time)
        dispatcher.observers.append(self._turns.happened)
        dispatcher.leaving.append(self._usage.leaving)
        for histogram in self._turns.histograms.values():
            self._registry.register(histogram)

    async def start(self, descriptors: int) -> None:
        """Answers from now on, with at most so many descriptors."""
        await self._server.start(descriptors)

    def stop(self) -> None:
        """Answers no more."""
        self._server.stop()

    async def _metrics(self) -> bytes:
        async with self._writing:
            if self._loop.time() >= self._fresh_until:
                began = time.thread_time()
                assert self._turns is not None
                assert self._usage is not None
                self._turns.bring_up_to_date()
                self._latest = self._take()
                self._containers = self._usage.now(self._latest.devices)
                self._fresh_until = self._loop.time() + (time.thread_time() - began) * _PAUSE_PER_COST
            return await asyncio.to_thread(generate_latest, self._registry)

    def _snapshot(self) -> SchedulerSnapshot:
        assert self._latest is not None
        return self._latest

    def _unready(self) -> list[str]:
        sockets = (self._run_dir.client_socket, self._run_dir.admin_socket)
        return [reason for reason in (*map(_unreachable, sockets), self._crowded()) if reason]


def _unreachable(path: Path) -> str:
    """Why nobody can connect there; empty if one can."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        # This very event loop accepts: it must not wait for that.
        connection.setblocking(False)
        try:
            connection.connect(os.fspath(path))
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return ""

"""The scheduler's ``/metrics``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from nvshare.http import HttpServer
from nvshare.paths import RunDir
from nvshare.scheduler.api.histograms import TurnHistograms
from nvshare.scheduler.api.metrics import SchedulerCollector
from nvshare.scheduler.api.scheduler_snapshot import SchedulerSnapshot
from nvshare.scheduler.core.actions import Action
from nvshare.scheduler.core.events import Event
from nvshare.scheduler.registered_client import RegisteredClient

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
        clients: Callable[[], Mapping[int, RegisteredClient]],
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
        self._turns = TurnHistograms(clients, loop.time)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(SchedulerCollector(version, self._snapshot))
        for histogram in self._turns.histograms.values():
            self._registry.register(histogram)
        self._server = HttpServer(address, self._metrics, self._unready, notes)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    def happened(self, event: Event | None, actions: Sequence[Action], now: float) -> None:
        """See ``dispatcher.Observe``."""
        self._turns.happened(event, actions, now)

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
                self._turns.bring_up_to_date()
                self._latest = self._take()
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

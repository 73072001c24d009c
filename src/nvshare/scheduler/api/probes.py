"""The scheduler's ``/metrics``, ``/healthz`` and ``/readyz``.

Pages are made in threads of the web server. What they show of the scheduler is read in its event loop, and not more
often than the lock path can bear.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from nvshare.http import HttpServer
from nvshare.paths import RunDir
from nvshare.scheduler.api.histograms import TurnHistograms
from nvshare.scheduler.api.metrics import SchedulerCollector
from nvshare.scheduler.api.scheduler_snapshot import SchedulerSnapshot
from nvshare.scheduler.core.actions import Action
from nvshare.scheduler.core.events import Event
from nvshare.scheduler.dispatcher import RegisteredClient

Result = TypeVar("Result")

_ANSWER_SECONDS = 2.0
_PAUSE_PER_COST = 20.0
"""A snapshot is used again for this many times what it cost to make: however many scrape, that takes at most 5 %."""


class Probes:
    """The pages of one scheduler."""

    def __init__(
        self,
        address: str,
        run_dir: RunDir,
        version: str,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[], SchedulerSnapshot],
        clients: Callable[[], Mapping[int, RegisteredClient]],
    ) -> None:
        """``take`` and ``clients`` are called in the event loop.

        Raises AddressError when nobody can listen at ``address``.
        """
        self._run_dir = run_dir
        self._loop = loop
        self._take = take
        self._lock = threading.Lock()
        self._latest: SchedulerSnapshot | None = None
        self._fresh_until = 0.0
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._turns = TurnHistograms(clients, loop.time)
        # First: the snapshot for it brings the histograms up to date.
        registry.register(SchedulerCollector(version, self._snapshot))
        for histogram in self._turns.histograms.values():
            registry.register(histogram)
        self._server = HttpServer(address, registry, self._unhealthy, self._unready, list)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    def happened(self, event: Event | None, actions: Sequence[Action], now: float) -> None:
        """See ``dispatcher.Observe``."""
        self._turns.happened(event, actions, now)

    def start(self) -> None:
        """Answers from now on."""
        self._server.start()

    def stop(self) -> None:
        """Answers no more. Blocks for up to half a second."""
        self._server.stop()

    def _snapshot(self) -> SchedulerSnapshot | None:
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                timed = self._ask(self._timed_snapshot)
                if timed is None:
                    return None
                self._latest, cost = timed
                self._fresh_until = time.monotonic() + cost * _PAUSE_PER_COST
            return self._latest

    def _timed_snapshot(self) -> tuple[SchedulerSnapshot, float]:
        began = time.monotonic()
        self._turns.bring_up_to_date()
        snapshot = self._take()
        return snapshot, time.monotonic() - began

    def _unhealthy(self) -> list[str]:
        if self._ask(bool) is None:
            return [f"the event loop does not answer within {_ANSWER_SECONDS:g} s"]
        return []

    def _unready(self) -> list[str]:
        sockets = (self._run_dir.client_socket, self._run_dir.admin_socket)
        reasons = (_unreachable(path) for path in sockets)
        return self._unhealthy() + [reason for reason in reasons if reason]

    def _ask(self, function: Callable[[], Result]) -> Result | None:
        """What the function says in the event loop; None if the loop does not come to it in time."""
        answer: Future[Result] = Future()
        try:
            self._loop.call_soon_threadsafe(lambda: answer.set_result(function()))
            return answer.result(_ANSWER_SECONDS)
        except (RuntimeError, TimeoutError):  # the loop has ended; it is busy
            return None


def _unreachable(path: Path) -> str:
    """Why nobody can connect there; empty if one can."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(os.fspath(path))
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return ""

"""The server of /metrics, /healthz and /readyz, which is loaded only where it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from nvshare.scheduler.api.scheduler_snapshot import SchedulerSnapshot
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.options import Options


class Server(Protocol):
    """``api.probes.Probes``."""

    @property
    def port(self) -> int: ...
    def follow(self, dispatcher: Dispatcher) -> None: ...
    async def start(self, descriptors: int) -> None: ...
    def stop(self) -> None: ...


def server_of(
    options: Options,
    loop: asyncio.AbstractEventLoop,
    take: Callable[[], SchedulerSnapshot],
    crowded: Callable[[], str],
    notes: Callable[[], list[str]],
) -> Server | None:
    """See ``api.probes.Probes``; None: none is wanted. ValueError when nobody can listen at its address."""
    if options.metrics_address is None:
        return None
    # Most schedulers of single users serve no metrics.
    from nvshare.http import AddressError
    from nvshare.scheduler.api.probes import Probes

    try:
        return Probes(options.metrics_address, options.run_dir, options.version, loop, take, crowded, notes)
    except AddressError as error:
        raise ValueError(str(error)) from error

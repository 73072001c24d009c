"""How long a process is to be idle before it sleeps, for others or though nobody needs what it has."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.process import Process
from nvshare.scheduler.core.terms import SleepWhen
from nvshare.scheduler.core.transitions import ClientState

IDLE_SECONDS: Final = 60.0
"""Of one that asked to sleep when it is idle, where the operator did not say how long that is."""


def idle_seconds(client: Client, after_seconds: float | None) -> float:
    """As far as one of its clients goes, by its terms and what the operator chose; infinite: it does not."""
    match client.container.terms.sleep:
        case SleepWhen.IDLE:
            return after_seconds or IDLE_SECONDS
        case None if after_seconds is not None:
            return after_seconds
        case _:
            return float("inf")


def idle_since(process: Process, clients: Collection[Client]) -> float:
    """Since when a process, whose clients these are, did nothing, as far as that is known; who waited for memory has
    been idle for no longer than it had that."""
    used = max((max(client.since, client.memory.grown_at) for client in clients), default=float("-inf"))
    return max(used, process.woke_at, process.tried_at)


def is_idle(clients: Collection[Client]) -> bool:
    """Whether a process, whose clients these are, neither has the lock of a device nor waits for one."""
    return all(client.state is ClientState.IDLE for client in clients)


def grants(clients: Collection[Client]) -> int:
    """How many grants these have had."""
    return sum(client.grants for client in clients)

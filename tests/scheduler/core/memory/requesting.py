"""Containers with memory requests at a table: how they come in, and what is seen of them."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    ContainerFound,
    GrowthRequested,
)
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.memory.swap_transcript import GIB, Table

MOST = 13.5
"""GiB that clients may be admitted."""


def asking(size: float, limit: float | None = None) -> Terms:
    """The terms of a container with a request of so many GiB."""
    limit_bytes = None if limit is None else int(limit * GIB)
    return Terms(memory_request_bytes=int(size * GIB), memory_limit_bytes=limit_bytes)


def enters(table: Table, name: str, size: float, container: str | None = None) -> list[str]:
    """A client is found to be in a container with a request, of the same name unless said otherwise."""
    return table.feed(ContainerFound(ord(name), container or f"of {name}", asking(size)))


def kept(table: Table, name: str) -> float:
    """What is granted to a client's container."""
    clients = table.core.snapshot(table.now)[0].clients
    return next(client.kept_bytes for client in clients if client.client == ord(name)) / GIB


def is_granted(said: list[str], name: str, request: int) -> bool:
    """Whether this growth was."""
    return any(line.startswith(f"allot {name} ") and line.endswith(f" as {request}") for line in said)


def reason(table: Table, name: str, size: float, fixed: float = 0) -> str:
    """Why a growth is refused."""
    assert f"refuse {name} 99" in table.feed(GrowthRequested(ord(name), 99, int(size * GIB), int(fixed * GIB)))
    return table.reason

"""What the memory limits of containers leave on one device: each counts for all processes of its container together.

What counts is what the processes allocated; their contexts don't. A client that swaps may allocate what it was admitted
without asking, so that is *claimed* whether it is *used* or not. No claim is admitted beyond the limit, and so that
none is refused for what others claim without use, they lose that when it is needed. What a client claimed that is gone
is waited for: its process may live and come back with it, until it is known to be free.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvshare.scheduler.core.actions import TellLimit
from nvshare.scheduler.core.memory.estates import Estates
from nvshare.scheduler.core.memory.view import View
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.containers import Container
from nvshare.scheduler.core.records.growth import Growth

MIB = 1 << 20


class Limits:
    """The limited containers that have clients on one device."""

    def __init__(self, estates: Estates) -> None:
        """``estates``: of clients that are gone, on the same device."""
        self._estates = estates
        self._containers: dict[Container, dict[int, Client]] = {}
        self._of: dict[int, Container] = {}
        self._told: dict[int, tuple[int, int]] = {}
        """What the clients know: the limit, and what others have."""

    def __bool__(self) -> bool:
        return bool(self._of)

    def update(self, client: Client) -> None:
        """A client is in another container than before, or its container's terms changed."""
        self._leave(client.number)
        if client.container.terms.memory_limit_bytes is not None:
            self._containers.setdefault(client.container, {})[client.number] = client
            self._of[client.number] = client.container

    def remove(self, client: Client) -> None:
        """A client is gone."""
        self._leave(client.number)
        self._told.pop(client.number, None)

    def is_limited(self, number: int) -> bool:
        """Whether a limit counts for a client."""
        return number in self._of

    def lacks(self, client: Client, growth: Growth, view: View) -> str | None:
        """Why a client's growth passes the limit as a view has it; None: it does not."""
        container = self._of.get(client.number)
        if container is None:
            return None
        others = 0
        for other in self._others(client.number, container):
            others += other.memory.claimed_bytes if view.keeps(other) else other.memory.used_bytes
        limit, wanted = self._limit(container), growth.footprint_bytes + growth.fixed_bytes
        if not view.best:
            wanted = client.memory.grown_bytes + self._gone_bytes(container)
        if others + wanted <= limit:
            return None
        had = f", of which its other processes have {others // MIB} MiB" if others else ""
        return f"the container's limit is {limit // MIB} MiB{had}"

    def in_the_way(self, client: Client, growth: Growth) -> list[Client]:
        """Whose memory is why a client's growth passes the limit; none where it would alone."""
        container = self._of[client.number]
        if growth.footprint_bytes + growth.fixed_bytes > self._limit(container):
            return []
        return [other for other in self._others(client.number, container) if other.memory.swaps]

    def is_pressed(self, number: int) -> bool:
        """Whether all that a client's container claims and waits for is more than the limit."""
        container = self._of.get(number)
        if container is None:
            return False
        wanted = sum(client.memory.grown_bytes for client in self._containers[container].values())
        return wanted + self._gone_bytes(container) > self._limit(container)

    def tell(self) -> list[TellLimit]:
        """What the clients don't know yet."""
        if not self._told and not self._containers:
            return []
        news = [
            TellLimit(number, 0, 0) for number, (limit, _) in self._told.items() if limit and number not in self._of
        ]
        for container, clients in self._containers.items():
            limit, used = self._limit(container), sum(client.memory.used_bytes for client in clients.values())
            for client in clients.values():
                others = used - client.memory.used_bytes
                if self._told.get(client.number) != (limit, others):
                    news.append(TellLimit(client.number, limit, others))
        for told in news:
            self._told[told.client] = told.limit_bytes, told.others_bytes
        return news

    def _leave(self, number: int) -> None:
        container = self._of.pop(number, None)
        if container is not None:
            del self._containers[container][number]
            if not self._containers[container]:
                del self._containers[container]

    def _others(self, number: int, container: Container) -> Iterator[Client]:
        return (client for client in self._containers[container].values() if client.number != number)

    def _gone_bytes(self, container: Container) -> int:
        name = container.name
        return sum(estate.memory.claimed_bytes for estate in self._estates if name and estate.container == name)

    def _limit(self, container: Container) -> int:
        return container.terms.memory_limit_bytes or 0

"""What those that come in together lack: memory that only holders could leave, or that nobody can."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nvshare.scheduler.core.memory.requests import Requests
from nvshare.scheduler.core.records.arenas import Arena, fill
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.host import Host
from nvshare.scheduler.core.transitions import ClientState


@dataclass(frozen=True, slots=True)
class Short:
    """Who lacks memory that only holders could leave."""

    client: Client
    unit: tuple[Client, ...]
    """Those who come in together, it among them; or it alone."""
    lacking_bytes: int

    @classmethod
    def of(cls, client: Client, lacking_bytes: int, units: Iterable[tuple[Client, ...]]) -> Short:
        """A client lacks so much; ``units``: of those that wait."""
        return cls(client, next((unit for unit in units if client in unit), (client,)), lacking_bytes)


def nobody_lacks(units: Iterable[tuple[Client, ...]]) -> bool:
    """Whether all of these, which wait for the lock, may come in as they are."""
    memories = (client.memory for unit in units for client in unit)
    return all(memory.swaps and memory.allotted_bytes >= memory.footprint_bytes for memory in memories)


def cramped(
    clients: Collection[Client], present: Collection[Client], most_bytes: int, host: Host, requests: Requests
) -> frozenset[int]:
    """Which of these, that all swap and are all of the device's, wait and would not be wholly in though nobody held.

    ``present``: those that have something there; ``most_bytes``: what a client has that is alone. They are passed over,
    else those behind them would wait with them.
    """
    lacking = sum([max(0, client.memory.useful_bytes - client.memory.host_bytes) for client in present])
    if lacking <= host.possible_bytes and not requests.granted_bytes:
        return frozenset()
    waiting = [client for client in clients if client.state is ClientState.WAITING]
    least_bytes = most_bytes - (stays_bytes((), present, host, requests) if waiting else 0)
    large = [client for client in waiting if client.memory.footprint_bytes > least_bytes]
    return frozenset(
        client.number
        for client in large
        if client.memory.footprint_bytes > most_bytes - stays_bytes([client], present, host, requests)
    )


def stays_bytes(unit: Collection[Client], clients: Collection[Client], host: Host, requests: Requests) -> int:
    """What is on the device beside all of these at once: what is reserved, and what the host has no memory for.

    ``clients``: of the device's that swap, at least those that have something there.
    """
    arenas = [Arena(client.memory.host_bytes, client.memory.useful_bytes) for client in clients]
    goals = fill(arenas, host.possible_bytes)
    own = {client.number for client in unit}
    stays = {
        client.number: client.memory.stays_bytes(goal.takes_bytes)
        for client, goal in zip(clients, goals, strict=True)
        if client.memory.reported and client.number not in own
    }
    return requests.stay_bytes(own, stays)

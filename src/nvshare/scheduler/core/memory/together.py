"""What those that come in together lack: memory that only holders could leave, or that nobody can."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nvshare.scheduler.core.memory.ledger import Ledger
from nvshare.scheduler.core.memory.requests import Requests
from nvshare.scheduler.core.records.arenas import Arena, fill
from nvshare.scheduler.core.records.client import Client, Unit
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
    clients: Collection[Client], present: Collection[Client], ledger: Ledger, host: Host, requests: Requests
) -> frozenset[int]:
    """Which of these, that all swap and are all of the device's, wait and would not be wholly in though nobody held
    but who holds as one with them.

    ``present``: those that have something there. They are passed over, else those behind them would wait with them.
    """
    lacking = sum([max(0, client.memory.useful_bytes - client.memory.host_bytes) for client in present])
    if lacking <= host.possible_bytes and not requests.granted_bytes:
        return frozenset()
    waiting = [client for client in clients if client.state is ClientState.WAITING]
    most_stays_bytes = stays_bytes((), present, host, requests) if waiting else 0
    large = [client for client in waiting if lacking_bytes(client.unit, ledger) > -most_stays_bytes]
    return frozenset(
        client.number
        for client in large
        if lacking_bytes(client.unit, ledger) > -stays_bytes(client.unit.members, present, host, requests)
    )


def lacking_bytes(unit: Unit, ledger: Ledger) -> int:
    """What a unit lacks to be wholly in where no other has anything that can move; negative: so much is left. One that
    is alone has the reserve."""
    needed = sum([each.memory.footprint_bytes for each in unit.members if each.memory.swaps])
    return needed - (ledger.alone_bytes if len(unit.members) == 1 else ledger.left_bytes)


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

"""Whether those who wait for memory will have it when others end.

Whoever does not wait is taken to end some time. Of those that wait one ends when it has what it asks for beside all
that the rest keep; what it had is free then, and so on: Dijkstra's banker's algorithm, with what was asked for as the
claims. Clients of one container or gang end together, so none waits for another of them.

Contexts whose size will soon be known are taken to take nothing: after a restart of the scheduler those of all clients
are, and what is assumed of them may be more than there is.

What is possible is asked of sums, not as for an admission (memory/admission.py): what memory requests keep, and what
can leave only in part, is left out. So it may take for possible what is not. Where nobody is left that could end it
goes by what is so now: those who wait do so because their growths are not possible.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from nvshare.scheduler.core.clients import Clients, Member
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.host import Host


@dataclass(frozen=True, slots=True)
class _Load:
    """What a client has of a device, or with what it asks for."""

    device: Device
    fixed_bytes: int
    movable_bytes: int


@dataclass(slots=True, eq=False)
class _Party:
    """Clients that end together."""

    clients: list[Member] = field(default_factory=list)
    has: list[_Load] = field(default_factory=list)
    wants: list[_Load] = field(default_factory=list)
    """What it has when those of it that wait have what they ask for."""
    waiting: list[Client] = field(default_factory=list)


class Ends:
    """See ``memory.queue.Ends``."""

    def __init__(self, clients: Clients, host: Host) -> None:
        """``clients``: all there are, by number."""
        self._clients, self._host = clients, host

    def suffice(self, client: Client, now: float) -> bool:
        """See ``memory.queue.Ends``."""
        party = next(each for each in self._parties(now, client) if client in each.waiting)
        return self._fits(party, ())

    def hopeless(self, now: float) -> Client | None:
        """See ``memory.queue.Ends``. Of several: who could not have it if it were alone, else who came last."""
        parties = self._parties(now)
        left = [party for party in parties if party.waiting]
        ending = (load for party in parties if not party.waiting for load in party.has)
        somebody_ends = any(load.fixed_bytes + load.movable_bytes for load in ending)
        while somebody_ends and (party := next((each for each in left if self._fits(each, left)), None)):
            left.remove(party)
        alone = {client: self._fits(party, ()) for party in left for client in party.waiting}
        return max(alone, key=lambda client: (not alone[client], client.number), default=None)

    def _fits(self, party: _Party, others: Collection[_Party]) -> bool:
        """Whether what a party wants is possible beside what others have, on all devices and in host memory."""
        loads = [*party.wants, *(load for other in others if other is not party for load in other.has)]
        by_device: dict[Device, list[_Load]] = {}
        for load in loads:
            by_device.setdefault(load.device, []).append(load)
        leaving_bytes = 0
        for device, there in by_device.items():
            fixed_bytes = sum(load.fixed_bytes for load in there)
            sizes = [load.movable_bytes for load in there]
            own = max((load.movable_bytes for load in party.wants if load.device is device), default=0)
            left = device.ledger.all_bytes - fixed_bytes
            headroom = max(0, device.ledger.most_headroom_bytes - fixed_bytes)
            if max(sizes) > left or own > left - headroom:
                return False
            leaving_bytes += max(0, sum(sizes) - left)
        return leaving_bytes <= self._host.budget_bytes

    def _parties(self, now: float, asker: Client | None = None) -> list[_Party]:
        found: dict[object, _Party] = {}
        for client, device in self._clients.values():
            keys = (client.container, client.tied or client.container)
            one, other = (found.get(key) for key in keys)
            party = one or other or _Party()
            party.clients.append((client, device))
            if one is not None and other is not None and one is not other:
                one.clients.extend(other.clients)
                found |= {key: one for key, each in found.items() if each is other}
            found |= dict.fromkeys(keys, party)
        parties = list({id(party): party for party in found.values()}.values())
        for party in parties:
            for client, device in party.clients:
                growth = client.memory.growth
                waits = growth is not None and growth.wait is not None and not growth.wait.for_sleep
                asks = client is asker or waits
                party.waiting.extend([client] if asks else [])
                party.has.append(_load(client, device, now))
                party.wants.append(_load(client, device, now, grown=asks))
        return parties


def _load(client: Client, device: Device, now: float, *, grown: bool = False) -> _Load:
    """What a client has, or with what it asks for. Managed memory is the driver's to page."""
    memory = client.memory
    is_unknown = device.ledger.total_measured and memory.is_unmeasured(now)
    fixed_bytes = memory.fixed_bytes - (memory.context_bytes if is_unknown else 0)
    if not memory.swaps:
        return _Load(device, fixed_bytes, 0)
    movable_bytes = max(memory.admitted_bytes, memory.footprint_bytes)
    if grown and memory.growth is not None:
        movable_bytes = max(movable_bytes, memory.growth.footprint_bytes)
        # Its context may be charged in advance.
        fixed_bytes += memory.more_unmovable_bytes - memory.ahead_bytes
    return _Load(device, fixed_bytes, movable_bytes)

"""Whether those who wait for memory will have it when others end.

Whoever does not wait is taken to end some time. Of those that wait one ends when it has what it asks for beside all
that the rest keep; what it had is free then, and so on: Dijkstra's banker's algorithm, with what was asked for as the
claims. Clients of one container or gang end together, so none waits for another of them.

What memory requests keep, and what can leave only in part, is left out: so it may take for possible what is not. Where
nobody is left that could end it goes by what is so now: those who wait do so because their growths are not possible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.memory.arenas import Host


@dataclass(slots=True)
class _Load:
    """What clients have of a device."""

    fixed_bytes: int = 0
    movable_bytes: int = 0
    largest_bytes: int = 0
    """Of one client, of what can move."""

    def add(self, other: _Load) -> None:
        self.fixed_bytes += other.fixed_bytes
        self.movable_bytes += other.movable_bytes
        self.largest_bytes = max(self.largest_bytes, other.largest_bytes)


_Loads = dict[Device, _Load]


@dataclass(slots=True, eq=False)
class _Party:
    """Clients that end together."""

    clients: list[tuple[Client, Device]] = field(default_factory=list)
    has: _Loads = field(default_factory=dict)
    wants: _Loads = field(default_factory=dict)
    """What it has when those of it that wait have what they ask for."""
    waiting: list[Client] = field(default_factory=list)

    def count(self, asker: Client | None = None) -> None:
        """Adds up; ``asker`` asks for memory, as those do that wait."""
        for client, device in self.clients:
            asks = client is asker or (client.swap is not None and client.swap.wait is not None)
            self.waiting += [client] if asks else []
            self.has.setdefault(device, _Load()).add(_load(client))
            self.wants.setdefault(device, _Load()).add(_load(client, grown=asks))


class Ends:
    """See ``memory.queue.Ends``."""

    def __init__(self, clients: Mapping[int, tuple[Client, Device]], host: Host) -> None:
        """``clients``: all there are, by number."""
        self._clients, self._host = clients, host

    def suffice(self, client: Client) -> bool:
        """See ``memory.queue.Ends``."""
        party = next(each for each in self._parties(client) if client in each.waiting)
        return self._fits(party, ())

    def hopeless(self) -> Client | None:
        """See ``memory.queue.Ends``. Of several: who could not have it if it were alone, else who came last."""
        parties = self._parties()
        left = [party for party in parties if party.waiting]
        somebody_ends = any(
            load.fixed_bytes + load.movable_bytes for each in parties if not each.waiting for load in each.has.values()
        )
        while somebody_ends and (party := next((each for each in left if self._fits(each, left)), None)):
            left.remove(party)
        alone = {client: self._fits(party, ()) for party in left for client in party.waiting}
        return max(alone, key=lambda client: (not alone[client], client.number), default=None)

    def _fits(self, party: _Party, others: Collection[_Party]) -> bool:
        """Whether what a party wants is possible beside what others have, on all devices and in host memory."""
        total: _Loads = {}
        for each in (party.wants, *(other.has for other in others if other is not party)):
            for device, load in each.items():
                total.setdefault(device, _Load()).add(load)
        leaving_bytes = 0
        for device, load in total.items():
            left = device.ledger.all_bytes - load.fixed_bytes
            headroom = max(0, device.ledger.most_headroom_bytes - load.fixed_bytes)
            own = party.wants[device].largest_bytes if device in party.wants else 0
            if load.largest_bytes > left or own > left - headroom:
                return False
            leaving_bytes += max(0, load.movable_bytes - max(left, load.largest_bytes))
        return leaving_bytes <= self._host.budget_bytes

    def _parties(self, asker: Client | None = None) -> list[_Party]:
        found: dict[object, _Party] = {}
        for client, device in self._clients.values():
            keys = (client.container, client.tied or client.container)
            one, other = (found.get(key) for key in keys)
            party = one or other or _Party()
            party.clients.append((client, device))
            if one is not None and other is not None and one is not other:
                one.clients += other.clients
                found |= {key: one for key, each in found.items() if each is other}
            found |= dict.fromkeys(keys, party)
        parties = list({id(party): party for party in found.values()}.values())
        for party in parties:
            party.count(asker)
        return parties


def _load(client: Client, *, grown: bool = False) -> _Load:
    """What a client has, or with what it asks for. Managed memory is the driver's to page."""
    swap, fixed_bytes = client.swap, client.account.fixed_bytes
    if swap is None:
        return _Load(fixed_bytes)
    movable_bytes = max(swap.admitted_bytes, swap.footprint_bytes)
    if grown and swap.growth is not None:
        movable_bytes = max(movable_bytes, swap.growth.footprint_bytes)
        fixed_bytes += swap.more_fixed_bytes + (swap.wait.context_bytes if swap.wait and not swap.has_context else 0)
    return _Load(fixed_bytes, movable_bytes, movable_bytes)

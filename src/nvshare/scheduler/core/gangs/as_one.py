"""Which members of a gang hold and wait as one, and in which class."""

from __future__ import annotations

from typing import Final

from nvshare.scheduler.core.clients import Clients, Member
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.records.client import Client, Part
from nvshare.scheduler.core.records.gang import Gang
from nvshare.scheduler.core.terms import Priority

MOST_MEMBERS: Final = 64
"""Of a gang that holds together: what its page has places for."""


def renew(gang: Gang, clients: Clients) -> None:
    """Finds anew which members of a gang hold and wait as one; ``clients``: all that there are."""
    members = clients.members(gang.members)
    bound = [(client, device) for client, device in members if not device.lock.is_off]
    apart = len(bound) > 1 and not (len(bound) <= MOST_MEMBERS and _has_room(gang, bound))
    alone = apart or gang.expected > 0 or len(bound) < 2
    places = [] if alone else _by_device(bound)
    # Those that have left it just now are in its class yet.
    former = [clients[number] for number in gang.together if number in clients and clients[number][0].gang is gang]
    _change_class(gang, former, max((client.container.terms.priority for client, _ in bound), default=None))
    together = () if alone else tuple(client.number for client, _ in bound)
    gang.hold(together, apart=apart, wide=len(places) > 1)
    for client, device in members:
        if client.number not in gang.together:
            set_part(client, device, None)
    for device, present in places:
        parts = [client.part for client in present if client.part is not None and client.part.gang is gang]
        part = next((each for each in parts if each.is_wide is gang.wide), None) or Part(gang, gang.wide)
        part.gather(tuple(present))
        for client in present:
            set_part(client, device, part)


def set_part(client: Client, device: Device, part: Part | None) -> None:
    """A client holds and waits as one with the members of this part of a gang; None: by itself."""
    if client.part is part:
        return
    device.lock.turns.line_up(client.unit, waits=False)
    device.lock.resize(client, lambda: client.join(part))
    device.lock.turns.reclass(client)


def _change_class(gang: Gang, members: list[Member], priority: Priority | None) -> None:
    """``priority``: the highest of its members; None: it has none that takes turns."""
    priority = Priority.NORMAL if priority is None else priority
    if gang.priority is priority:
        return
    gang.change_class(priority)
    for client, device in members:
        device.lock.turns.reclass(client)


def _has_room(gang: Gang, members: list[Member]) -> bool:
    """Whether there is room on each device for all of these that are there."""
    places = [(device.lock.holders, clients) for device, clients in _by_device(members)]
    return all(holders.have_room_for_all(clients, as_one=not gang.apart) for holders, clients in places)


def _by_device(members: list[Member]) -> list[tuple[Device, list[Client]]]:
    found: dict[str, tuple[Device, list[Client]]] = {}
    for client, device in members:
        found.setdefault(device.uuid, (device, []))[1].append(client)
    return list(found.values())

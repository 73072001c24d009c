"""Which members of a gang hold and wait as one, and in which class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.gangs.belonging import Member
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.records.gang import Gang
from nvshare.scheduler.core.terms import Priority

MOST_MEMBERS: Final = 64
"""Of a gang that holds together: what its page has places for."""


def renew(gang: Gang, clients: Mapping[int, Member]) -> None:
    """Finds anew which members of a gang hold and wait as one; ``clients``: all that there are."""
    members = [clients[number] for number in gang.members]
    bound = [(client, device) for client, device in members if not device.lock.is_off]
    gang.apart = len(bound) > 1 and not (len(bound) <= MOST_MEMBERS and _has_room(gang, bound))
    alone = gang.apart or gang.expected > 0 or len(bound) < 2
    together = () if alone else tuple(client.number for client, _ in bound)
    # Those that have left it just now are in its class yet.
    former = [clients[number] for number in gang.together if number in clients and clients[number][0].gang is gang]
    _change_class(gang, former, max((client.container.terms.priority for client, _ in bound), default=None))
    gang.together, gang.wide = together, len({device.uuid for _, device in bound}) > 1 and bool(together)
    for client, device in members:
        set_gang(client, device, gang if client.number in together else None)


def set_gang(client: Client, device: Device, gang: Gang | None) -> None:
    """A client holds and waits as one with the members of this gang; None: by itself."""
    if client.gang is gang:
        return
    device.lock.turns.line_up(client, leads=False, beside=())

    def change() -> None:
        client.gang = gang

    device.lock.resize(client, change)
    device.lock.turns.reclass(client)


def _change_class(gang: Gang, members: list[Member], priority: Priority | None) -> None:
    """``priority``: the highest of its members; None: it has none that takes turns."""
    priority = Priority.NORMAL if priority is None else priority
    if gang.priority is priority:
        return
    gang.priority = priority
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

"""Which holders must leave so that there is room: as few as can be, where those of a gang leave as one."""

from __future__ import annotations

from collections.abc import Sequence

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.records.client import Client, Unit, needed_bytes


def must_leave(policy: Policy, holders: Sequence[Client], lacking_bytes: int, waiter: Unit) -> list[Client]:
    """Which of the holders must leave for a unit that lacks so much beside all of them and those who stay anyhow.

    It does not fit beside all of them; without them it does. The answer is in the order of ``holders``.
    """
    if len(holders) == 1 or policy is Policy.EXCLUSIVE or waiter.needed_bytes is None:
        return list(holders)
    units: dict[Unit, list[Client]] = {}
    for client in holders:
        units.setdefault(client.unit, []).append(client)
    known = [(unit, size) for unit in units.values() if (size := needed_bytes(unit)) is not None]
    chosen = set(fewest([size for _, size in known], lacking_bytes))
    stays = {client.number for place, (unit, _) in enumerate(known) if place not in chosen for client in unit}
    return [client for client in holders if client.number not in stays]


def fewest(sizes: Sequence[int], lacking_bytes: int) -> list[int]:
    """The places of as few of the sizes as make ``lacking_bytes``; of all such choices the one with the first places.

    The answer is in order. All of them if all together make less. It takes n log n.
    """
    by_size = sorted(range(len(sizes)), key=lambda place: sizes[place], reverse=True)
    count = spare = 0
    while count < len(by_size) and spare < lacking_bytes:
        spare += sizes[by_size[count]]
        count += 1
    if spare < lacking_bytes:
        return list(range(len(sizes)))
    spare -= lacking_bytes
    # The largest ones are enough. Now, from the first on, each takes the place of the smallest of the chosen ones that
    # are left as far as the spare bytes allow it.
    chosen = by_size[:count]
    left = set(chosen)
    found: list[int] = []
    for place, size in enumerate(sizes):
        if not left:
            break
        if place in left:
            left.remove(place)
            found.append(place)
            continue
        while chosen[-1] not in left:
            chosen.pop()
        loss = sizes[chosen[-1]] - size
        if loss <= spare:
            spare -= loss
            left.remove(chosen.pop())
            found.append(place)
    return found

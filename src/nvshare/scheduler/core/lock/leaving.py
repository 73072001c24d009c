"""Which holders must leave so that there is room: as few as can be."""

from __future__ import annotations

from collections.abc import Sequence

from nvshare.scheduler.core.client import Client
from nvshare.scheduler.core.events import Policy


def must_leave(policy: Policy, holders: Sequence[Client], lacking_bytes: int, waiter: Client) -> list[Client]:
    """Which of the holders must leave for a waiter that lacks so much beside all of them and those who stay anyhow.

    The waiter does not fit beside all of them; without them it does. The answer is in the order of ``holders``.
    """
    alone = policy is Policy.EXCLUSIVE or waiter.is_wide
    if len(holders) == 1 or alone or not waiter.account.is_known:
        return list(holders)
    known = [client for client in holders if client.account.is_known]
    enough = {client.number for client in fewest(known, lacking_bytes)}
    return [client for client in holders if client.number in enough or not client.account.is_known]


def fewest(holders: Sequence[Client], lacking_bytes: int) -> list[Client]:
    """As few of the holders as free ``lacking_bytes``; of all such choices the one with the longest holders.

    ``holders`` are in the order in which they began to hold, and so is the answer. All of them if all together free
    less. It takes n log n.
    """
    by_size = sorted(holders, key=_movable_bytes, reverse=True)
    count = spare = 0
    while count < len(by_size) and spare < lacking_bytes:
        spare += _movable_bytes(by_size[count])
        count += 1
    if spare < lacking_bytes:
        return list(holders)
    spare -= lacking_bytes
    # The largest ones are enough. Now, from the longest holder on, each takes the place of the smallest of the chosen
    # ones that are left as far as the spare bytes allow it.
    chosen = by_size[:count]
    open_places = {client.number for client in chosen}
    leaving: list[Client] = []
    for client in holders:
        if not open_places:
            break
        if client.number in open_places:
            open_places.remove(client.number)
            leaving.append(client)
            continue
        while chosen[-1].number not in open_places:
            chosen.pop()
        loss = _movable_bytes(chosen[-1]) - _movable_bytes(client)
        if loss <= spare:
            spare -= loss
            open_places.remove(chosen.pop().number)
            leaving.append(client)
    return leaving


def _movable_bytes(client: Client) -> int:
    return client.account.movable_bytes

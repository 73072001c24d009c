"""Which waiters may pass others because that delays nobody before them; the rule is in lock.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nvshare.scheduler.core.client import Client

PASSING_WAITERS: Final = 32
"""How many waiters are looked at, so that an event costs the same however many wait."""


def passing(
    waiters: Iterable[Client], first: Client, left_now: int, left_then: int, left_for_two: int, *, even: bool
) -> list[Client]:
    """Those of the waiters, which begin with the first in their order, that may come in now.

    ``left_now``: bytes that are left beside all holders, not negative; ``left_then``: beside the first waiter and those
    who stay when it comes in; ``left_for_two``: beside nobody but holders that never leave. No footprint of a holder is
    unknown. ``even``: all quanta are equally long.
    """
    found: list[Client] = []
    if left_then < 0 or not _is_known(first):
        return found
    before = first
    for place, client in enumerate(waiters):
        if place == PASSING_WAITERS:
            break
        if client is first:
            continue
        known, needed = _is_known(client), _needed_bytes(client)
        if known and needed <= min(left_now, left_then):
            found.append(client)
            left_now -= needed
            left_then -= needed
        elif known and needed <= left_then and before is first:
            # It comes in together with the first.
            left_then -= needed
        elif even and (not known or (needed > left_then and needed + _needed_bytes(before) > left_for_two)):
            # It comes in when the one before it leaves, at the earliest.
            before = client
        else:
            break
    return found


def _is_known(waiter: Client) -> bool:
    return all(client.account.is_known for client in waiter.unit)


def _needed_bytes(waiter: Client) -> int:
    return sum(client.account.movable_bytes for client in waiter.unit)

"""Which waiters may pass others because that delays nobody before them; the rule is in lock.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nvshare.scheduler.core.records.client import Unit

PASSING_WAITERS: Final = 32
"""How many waiters are looked at, so that an event costs the same however many wait."""


def passing(
    waiters: Iterable[Unit], first: Unit, left_now: int, left_then: int, left_for_two: int, *, even: bool
) -> list[Unit]:
    """Those of the waiters, which begin with the first in their order, that may come in now.

    ``left_now``: bytes that are left beside all holders, not negative; ``left_then``: beside the first waiter and those
    who stay when it comes in; ``left_for_two``: beside nobody but holders that never leave. No footprint of a holder is
    unknown. ``even``: all quanta are equally long.
    """
    found: list[Unit] = []
    # Of those that are before a waiter: what the smallest needs, and whether they come in together.
    least_bytes, all_together = first.needed_bytes, True
    if left_then < 0 or least_bytes is None:
        return found
    for place, unit in enumerate(waiters):
        if place == PASSING_WAITERS:
            break
        if unit is first:
            continue
        needed = unit.needed_bytes
        if needed is not None and needed <= left_now and needed <= left_then:
            found.append(unit)
            left_now -= needed
            left_then -= needed
        elif all_together and needed is not None and needed <= left_then:
            # It comes in together with the first.
            left_then -= needed
            least_bytes = min(least_bytes, needed)
        elif even and (needed is None or (needed > left_then and needed + least_bytes > left_for_two)):
            # It comes in beside none of those before it: a quantum later at the earliest.
            all_together = False
            least_bytes = least_bytes if needed is None else min(least_bytes, needed)
        else:
            break
    return found

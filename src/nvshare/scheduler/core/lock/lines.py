"""Where those wait that are in a device's line, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator

from nvshare.scheduler.core.lock.lock import Lock
from nvshare.scheduler.core.memory.residency import Residency
from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.snapshot import Line, Turn


def lines(lock: Lock, residency: Residency, now: float) -> Iterator[tuple[Client, Line]]:
    """Each that waits, and where."""
    ahead = (*lock.holders.staying(), *lock.blocking.clients.values(), *lock.stuck.keepers)
    turns = {client.number: Turn(client.number, now - client.since, client.holds) for client in ahead}
    all_turns = tuple(turns.values())
    length, recovering, ready_at = len(lock.turns), bool(lock.awaited), lock.turns.service.ready_at
    for position, unit in enumerate(lock.turns, start=1):
        for client in unit.coming:
            too_large = residency.never_fits(client) and not residency.fits_asleep(client)
            # Who does not leave keeps itself out as well, but waits for the others.
            own = turns.get(client.number)
            behind = all_turns if own is None else tuple(turn for turn in all_turns if turn is not own)
            limit_seconds = max(0.0, ready_at(client.container) - now)
            yield client, Line(position, length, now - client.since, behind, recovering, too_large, limit_seconds)

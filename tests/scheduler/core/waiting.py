"""Nobody waits for ever: what holds of everyone who waits, after every event and timer, by what can be seen of a core.

Whoever waits has somebody who still has something to do, which its model knows: messages are under way, memory moves, a
holder is about to stop. Or there is a moment at which the core acts by itself. Or what it waits for only a user or the
machine can end, and the snapshot says what that is.
"""

from __future__ import annotations

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.invariants import reasons, waits


def check(core: Core, now: float) -> None:
    """AssertionError where somebody waits for nothing. Nobody else has anything to do, as far as the model knows."""
    if core.deadline() is not None:
        return
    devices = core.snapshot(now)
    for device in devices:
        for client in device.clients:
            if waits(client) and not reasons(core.client(client.client, now), device, devices):
                raise AssertionError(f"{client.client} waits for ever: {client} beside {device}")

"""Nobody waits for ever: what holds of everyone who waits, after every event and timer, by what can be seen of a core.

Whoever waits has somebody who still has something to do, which its model knows: messages are under way, memory moves, a
holder is about to stop. Or there is a moment at which the core acts by itself. Or what it waits for only a user or the
machine can end, and the snapshot says what that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.invariants import reasons, waits
from nvshare.scheduler.core.snapshot import ShownState


def check(core: Core, now: float, mates_of: Callable[[int], Iterable[int]] = lambda number: (number,)) -> None:
    """AssertionError where somebody waits for nothing. Nobody else has anything to do, as far as the model knows.

    ``mates_of``: a client's process wakes for all of these, itself too.
    """
    if core.deadline() is not None:
        return
    devices = core.snapshot(now)
    on = {client.client: device for device in devices for client in device.clients}
    for device in devices:
        for client in filter(waits, device.clients):
            mates = mates_of(client.client) if client.state is ShownState.WAKING else (client.client,)
            if not any(reasons(core.client(each, now), on[each], devices) for each in mates):
                raise AssertionError(f"{client.client} waits for ever: {client} beside {device}")

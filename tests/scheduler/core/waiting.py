"""Nobody waits for ever: what holds of everyone who waits, after every event and timer, by what can be seen of a core.

Whoever waits has somebody who still has something to do, which its model knows: messages are under way, memory moves, a
holder is about to stop. Or there is a moment at which the core acts by itself. Or what it waits for only a user or the
machine can end, and the snapshot says what that is.
"""

from __future__ import annotations

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState


def check(core: Core, now: float) -> None:
    """AssertionError where somebody waits for nothing. Nobody else has anything to do, as far as the model knows."""
    if core.deadline() is not None:
        return
    devices = core.snapshot(now)
    for device in devices:
        for client in device.clients:
            if waits(client) and not reasons(core.client(client.client, now), device, devices):
                raise AssertionError(f"{client.client} waits for ever: {client} beside {device}")


def waits(client: ClientSnapshot) -> bool:
    """Whether it waits for the lock, for a growth, or as a holder for its own memory."""
    swap = client.swap
    if client.state is ShownState.WAITING or (swap is not None and swap.wanted_bytes > 0):
        return True
    return client.state is ShownState.HOLDING and swap is not None and swap.out_bytes > 0


def reasons(client: ClientSnapshot, device: DeviceSnapshot, devices: tuple[DeviceSnapshot, ...]) -> list[str]:
    """What is shown that only a user or the machine can end."""
    line, wait = client.line, client.wait
    found: list[str] = []
    if any(each.recovering for each in devices):
        found.append("a holder of the scheduler before is awaited")
    if line is not None and line.too_large:
        found.append("it is larger than the device")
    if line is not None and line.limit_seconds > 0:
        found.append("its container's compute limit is used up")
    if wait is not None and wait.too_large:
        found.append("one of its gang is larger than the device")
    if wait is not None and wait.expected > wait.come:
        found.append("its gang is not complete")
    where = [device] if client.gang is None else list(devices)
    others = [each for place in devices for each in place.clients if each.container != client.container]
    if client.swap is not None and client.swap.wait and any(_may_end(each) for each in others):
        found.append(client.swap.wait)
    # One that does not come in itself, too: its process is stopped.
    for other in (each for place in where for each in place.clients):
        if other.state is ShownState.UNRESPONSIVE:
            found.append(f"{other.client} does not give the lock back")
        if other.swap is not None and other.swap.still_seconds > 0:
            found.append(f"{other.client} has not moved for {other.swap.still_seconds} s")
    return found


def _may_end(client: ClientSnapshot) -> bool:
    """Whether it has memory, and does not wait for others' ends itself."""
    has = client.pinned_bytes + (client.footprint_bytes or 0) > 0
    return has and (client.swap is None or not client.swap.wait)

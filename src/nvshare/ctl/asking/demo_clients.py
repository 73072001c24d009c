"""What the demo asks for: how the clients of its scheduler do, and what they did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from nvshare.admin import admin_pb2
from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
from nvshare.ctl.asking.status_stream import Lost, watching
from nvshare.ctl.errors import CommandError
from nvshare.ctl.showing import memory
from nvshare.demo.clients import ClientStates, Did, Seen
from nvshare.demo.errors import DemoError
from nvshare.paths import RunDir

_MIN_INTERVAL_SECONDS = 0.1
_LONGEST_DEMO_SECONDS = 3600.0


@contextmanager
def watching_clients(run_dir: RunDir) -> Iterator[ClientStates]:
    """A function that returns what has been reported of the clients since its last call."""
    with watching([run_dir], _MIN_INTERVAL_SECONDS) as updates:

        def reported() -> dict[int, Seen]:
            seen: dict[int, Seen] = {}
            while not updates.empty():
                update = updates.get_nowait()
                if isinstance(update, Lost):
                    if update.ended:
                        raise DemoError(f"the demo's scheduler is gone: {update.reason}")
                    continue
                seen |= {client.pid: _seen(client) for device in update.devices for client in device.clients}
            return seen

        yield reported


def _seen(client: admin_pb2.Client) -> Seen:
    swap = client.swap
    return Seen(
        client.state,
        memory.on_device(client),
        moves=swap.coming_bytes + swap.leaving_bytes > 0,
        has_context=client.state != "asleep" or client.pinned_bytes > 0,
        sleeps=client.sleeps,
    )


def deeds(run_dir: RunDir) -> dict[int, list[Did]]:
    """What the clients did since the scheduler began, by pid."""
    request = admin_pb2.GetTimelineRequest(seconds=_LONGEST_DEMO_SECONDS)
    try:
        with admin([run_dir], only_to_read=True) as scheduler:
            seen = scheduler.GetTimeline(request, timeout=RPC_TIMEOUT)
    except CommandError as error:
        raise DemoError(f"the demo's scheduler can't be asked: {error}") from error
    # The scheduler's clock is this one's, and its answer took no time to speak of.
    start = time.monotonic() - seen.seconds
    return {
        client.pid: [Did(span.what, start + span.begin, start + span.end) for span in client.spans]
        for client in seen.clients
    }

"""What the demo asks for: how the clients of its scheduler do, from the scheduler's status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nvshare.admin import admin_pb2
from nvshare.ctl.asking.status_stream import Lost, watching
from nvshare.ctl.showing import memory
from nvshare.demo.clients import ClientStates, Seen
from nvshare.demo.errors import DemoError
from nvshare.paths import RunDir

_MIN_INTERVAL_SECONDS = 0.1


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
    return Seen(client.state, memory.on_device(client), moves=swap.coming_bytes + swap.leaving_bytes > 0)

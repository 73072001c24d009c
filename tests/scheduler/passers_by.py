"""Clients that come and go, and what they leave behind in the scheduler's memory."""

from __future__ import annotations

import resource
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.wire_client import DEVICE, GIB, Scheduler, WireClient


def resident_bytes(scheduler: Scheduler) -> int:
    """The memory of the process."""
    pages = int(Path(f"/proc/{scheduler.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def come_and_go(scheduler: Scheduler, count: int) -> None:
    """So many clients, one after another: some have memory, some invent a device, some are cut off within a frame.

    None of them holds a lock: that would stay in the timeline, until tens of thousands more had held one.
    """
    for number in range(count):
        client = WireClient(scheduler.run_dir.client_socket)
        match number % 3:
            case 0:
                client.register()
                client.send(wire.Footprint(GIB))
            case 1:
                client.register(device_uuid=(number % 997).to_bytes(16, "big"))
                client.send(wire.Footprint(GIB))
            case _:
                client.raw.send(wire.encode(wire.Register(DEVICE, GIB))[:7])
        client.close()
    poll_until(lambda: not scheduler.states(), "all are gone")

"""The status stream as a queue that survives the scheduler's restarts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nvshare.admin import admin_pb2
from nvshare.ctl.connection import admin
from nvshare.ctl.errors import CommandError
from nvshare.paths import RunDir

RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Lost:
    """The scheduler is gone or does not answer; it is tried again until it is back."""

    reason: str


Feed = queue.SimpleQueue[admin_pb2.Status | Lost]


@contextmanager
def watching(run_dir: RunDir, min_interval_seconds: float) -> Iterator[Feed]:
    """A queue that gets every change of the status, and Lost once each time that the scheduler goes away."""
    feed: Feed = queue.SimpleQueue()
    stop = threading.Event()
    reader = threading.Thread(target=_read, args=(run_dir, min_interval_seconds, feed, stop), daemon=True)
    reader.start()
    try:
        yield feed
    finally:
        stop.set()


def _read(run_dir: RunDir, min_interval_seconds: float, feed: Feed, stop: threading.Event) -> None:
    request = admin_pb2.WatchStatusRequest(min_interval_seconds=min_interval_seconds)
    connected = True
    while not stop.is_set():
        reason = "the scheduler ended"
        try:
            with admin(run_dir) as scheduler:
                for status in scheduler.WatchStatus(request):
                    connected = True
                    feed.put(status)
        except CommandError as failure:
            reason = str(failure)
        if connected:
            feed.put(Lost(reason))
        connected = False
        stop.wait(RETRY_SECONDS)


def aged(status: admin_pb2.Status, seconds: float) -> admin_pb2.Status:
    """What the status will be so many seconds later if nothing changes: the clocks of those who hold and wait go on."""
    later = admin_pb2.Status()
    later.CopyFrom(status)
    later.uptime_seconds += seconds
    for device in later.devices:
        if device.HasField("quantum_left_seconds"):
            device.quantum_left_seconds = max(device.quantum_left_seconds - seconds, 0)
        for client in device.clients:
            if client.state in ("holding", "unresponsive"):
                client.held_seconds += seconds
            elif client.state == "waiting":
                client.waited_seconds += seconds
    return later

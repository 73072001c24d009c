"""The scheduler's status as a queue of updates, which goes on when the scheduler restarts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nvshare.admin import admin_pb2
from nvshare.ctl.admin_client import admin
from nvshare.ctl.errors import CommandError
from nvshare.paths import RunDir

RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Lost:
    """The scheduler has ended or does not answer. The connection is tried again until it is back."""

    reason: str


Updates = queue.SimpleQueue[admin_pb2.Status | Lost]


@contextmanager
def watching(run_dir: RunDir, min_interval_seconds: float) -> Iterator[Updates]:
    """A queue that gets every change of the status, and Lost once for each time that the scheduler goes away."""
    updates: Updates = queue.SimpleQueue()
    stop = threading.Event()
    reader = threading.Thread(target=_read, args=(run_dir, min_interval_seconds, updates, stop), daemon=True)
    reader.start()
    try:
        yield updates
    finally:
        stop.set()


def _read(run_dir: RunDir, min_interval_seconds: float, updates: Updates, stop: threading.Event) -> None:
    request = admin_pb2.WatchStatusRequest(min_interval_seconds=min_interval_seconds)
    connected = True
    while not stop.is_set():
        reason = "the scheduler ended"
        try:
            with admin(run_dir) as scheduler:
                for status in scheduler.WatchStatus(request):
                    connected = True
                    updates.put(status)
        except CommandError as failure:
            reason = str(failure)
        if connected:
            updates.put(Lost(reason))
        connected = False
        stop.wait(RETRY_SECONDS)


def aged(status: admin_pb2.Status, seconds: float) -> admin_pb2.Status:
    """The status after this many seconds in which nothing changes: only the times of holders and waiters grow."""
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

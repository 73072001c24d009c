"""The scheduler's status as a queue of updates, which goes on when the scheduler restarts."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from nvshare.admin import admin_pb2
from nvshare.ctl.asking.admin_client import StoppedError, admin
from nvshare.ctl.errors import CommandError
from nvshare.paths import RunDir

RETRY_SECONDS = 0.5
_SILENCE_SECONDS = 2.0
"""A scheduler that said nothing for this long is asked whether it still answers, and has as long for that."""
_HOLDERS = ("holding", "leaving", "unresponsive")


@dataclass(frozen=True, slots=True)
class Lost:
    """The scheduler has ended or does not answer. It is tried again until it is back."""

    reason: str
    ended: bool
    """False: it is there and does not answer."""
    since: datetime

    def words(self) -> str:
        """For people; short, since a screen has one line for it."""
        what = "the scheduler is gone" if self.ended else self.reason
        return f"{what} since {self.since:%H:%M:%S}; waiting for it to come back"


Updates = queue.SimpleQueue[admin_pb2.Status | Lost]


@contextmanager
def watching(run_dirs: Sequence[RunDir], min_interval_seconds: float) -> Iterator[Updates]:
    """A queue that gets every change of the status, and Lost once for each time that the scheduler goes away."""
    watch = _Watch(run_dirs, min_interval_seconds)
    for work in (watch.read, watch.check):
        threading.Thread(target=work, daemon=True).start()
    try:
        yield watch.updates
    finally:
        watch.stop.set()


class _Watch:
    """Two threads: one reads what the scheduler says by itself, one asks when that is nothing."""

    def __init__(self, run_dirs: Sequence[RunDir], min_interval_seconds: float) -> None:
        self.updates: Updates = queue.SimpleQueue()
        self.stop = threading.Event()
        self._run_dirs = run_dirs
        self._request = admin_pb2.WatchStatusRequest(min_interval_seconds=min_interval_seconds)
        self._lock = threading.Lock()
        self._heard = time.monotonic()
        self._heard_at = datetime.now().astimezone()
        self._lost = False

    def read(self) -> None:
        """Until ``stop``."""
        while not self.stop.is_set():
            reason = "the scheduler ended"
            try:
                with admin(self._run_dirs, only_to_read=True) as scheduler:
                    for status in scheduler.WatchStatus(self._request):
                        self._hear(status)
            except CommandError as failure:
                reason = str(failure)
            self._lose(reason, ended=True)
            self.stop.wait(RETRY_SECONDS)

    def check(self) -> None:
        """Until ``stop``."""
        while not self.stop.wait(max(0.0, self._heard + _SILENCE_SECONDS - time.monotonic()) or RETRY_SECONDS):
            if time.monotonic() < self._heard + _SILENCE_SECONDS:
                continue
            try:
                with admin(self._run_dirs, only_to_read=True) as scheduler:
                    status = scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=_SILENCE_SECONDS)
            except StoppedError as failure:
                self._lose(f"the scheduler is stopped (kill -CONT {failure.pid}) and has not answered", ended=False)
            except CommandError:
                self._lose("the scheduler has not answered", ended=False)
            else:
                self._hear(status, only_if_lost=True)

    def _hear(self, status: admin_pb2.Status, *, only_if_lost: bool = False) -> None:
        with self._lock:
            if self._lost or not only_if_lost:
                self.updates.put(status)
            self._lost = False
            self._heard = time.monotonic()
            self._heard_at = datetime.now().astimezone()

    def _lose(self, reason: str, *, ended: bool) -> None:
        with self._lock:
            if not self._lost:
                self.updates.put(Lost(reason, ended, datetime.now().astimezone() if ended else self._heard_at))
            self._lost = True


def aged(status: admin_pb2.Status, seconds: float) -> admin_pb2.Status:
    """The status after this many seconds in which nothing changes: only times grow."""
    later = admin_pb2.Status()
    later.CopyFrom(status)
    later.uptime_seconds += seconds
    for device in later.devices:
        if device.HasField("quantum_left_seconds"):
            device.quantum_left_seconds = max(device.quantum_left_seconds - seconds, 0)
        if device.mix.HasField("measured_seconds"):
            device.mix.measured_seconds += seconds
        for client in device.clients:
            _age(client, seconds)
    return later


def _age(client: admin_pb2.Client, seconds: float) -> None:
    if client.state in _HOLDERS:
        client.held_seconds += seconds
    elif client.state == "waiting":
        client.waited_seconds += seconds
        client.waiting_seconds += seconds
    elif client.state in ("asleep", "waking"):
        client.asleep_seconds += seconds
    if client.swap.coming_bytes or client.swap.leaving_bytes:
        client.swap.still_seconds += seconds

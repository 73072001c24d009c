"""What the screen shows and sets, by threads of its own: the screen never waits for the scheduler."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pynvml  # type: ignore[import-untyped]

from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
from nvshare.ctl.asking.status_stream import RETRY_SECONDS, Lost, Updates, aged, watching
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.top.use import Use
from nvshare.paths import RunDir

_QUANTA = 4
_USE_SECONDS = 1.0
_SHORTEST_SECONDS = 60.0
_LONGEST_SECONDS = 86400.0
"""The longest that a scheduler takes."""
_NOT_PERMITTED = "not permitted: only the scheduler's own user sets anything (sudo nvshare-ctl top)"

Request = Callable[[AdminStub], admin_pb2.Status]


class Feed:
    """The newest that is known of a scheduler, and the way to command it."""

    def __init__(self, run_dirs: Sequence[RunDir], interval: float, updates: Updates, wake: Callable[[], None]) -> None:
        self.lost = ""
        """Why there is nothing newer; empty while the scheduler answers."""
        self.timeline = admin_pb2.Timeline()
        self.said = ""
        """What became of the last command."""
        self.use = Use()
        self._busy: queue.SimpleQueue[dict[str, float]] = queue.SimpleQueue()
        self._status = admin_pb2.Status()
        self._since = time.monotonic()
        self._run_dirs = run_dirs
        self._interval = interval
        self._updates = updates
        self._wake = wake
        self._stop = threading.Event()
        self._unanswered = 0
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._commands: queue.SimpleQueue[tuple[str, Request]] = queue.SimpleQueue()

    @property
    def busy(self) -> bool:
        """The scheduler has not answered yet to all that it was told."""
        return self._unanswered > 0

    def start(self) -> None:
        """Starts the threads."""
        for work in (self._read_timeline, self._send, self._read_use):
            threading.Thread(target=work, daemon=True).start()

    def stop(self) -> None:
        """The threads end when they next look."""
        self._stop.set()

    def take(self) -> None:
        """Brings everything up to date with what has come."""
        with suppress(queue.Empty):
            while True:
                self.said = self._answers.get_nowait()
                self._unanswered -= 1
        with suppress(queue.Empty):
            while True:
                self._hear(self._updates.get_nowait())
        with suppress(queue.Empty):
            while True:
                self.use.add(self._status, self._busy.get_nowait())

    def status(self) -> admin_pb2.Status:
        """The status of now; while the scheduler is away, its last one."""
        return self._status if self.lost else aged(self._status, time.monotonic() - self._since)

    def set_policy(self, uuid: str, policy: str, name: str) -> None:
        """Of the device that people know by this name."""
        request = admin_pb2.SetPolicyRequest(policy=policy, device_uuid=uuid)
        self._command(f"policy of {name}: {policy}", lambda stub: stub.SetPolicy(request, timeout=RPC_TIMEOUT))

    def set_quantum(self, uuid: str, seconds: float, name: str) -> None:
        """Of the device that people know by this name."""
        request = admin_pb2.SetQuantumRequest(seconds=seconds, device_uuid=uuid)
        self._command(f"quantum of {name}: {seconds:g} s", lambda stub: stub.SetQuantum(request, timeout=RPC_TIMEOUT))

    def set_terms(self, asked: admin_pb2.SetTermsRequest, text: str) -> None:
        """Of a container; ``text`` says what is set of whom."""
        self._command(text, lambda stub: stub.SetTerms(asked, timeout=RPC_TIMEOUT))

    def _hear(self, update: admin_pb2.Status | Lost) -> None:
        if isinstance(update, Lost):
            self.lost = update.words()
        else:
            self._status, self._since, self.lost = update, time.monotonic(), ""

    def _command(self, text: str, request: Request) -> None:
        self.said = f"{text} ..."
        self._unanswered += 1
        self._commands.put((text, request))

    def _send(self) -> None:
        while not self._stop.is_set():
            text, request = self._commands.get()
            try:
                with admin(self._run_dirs) as scheduler:
                    self._updates.put(request(scheduler))
                self._answers.put(text)
            except CommandError as refusal:
                self._answers.put(_NOT_PERMITTED if refusal.code is ExitCode.NOT_PERMITTED else str(refusal))
            self._wake()

    def _read_timeline(self) -> None:
        """A connection of its own, for as long as it lasts: one for each question takes more time than the answer."""
        while not self._stop.is_set():
            try:
                with admin(self._run_dirs, only_to_read=True) as scheduler:
                    while not self._stop.is_set():
                        request = admin_pb2.GetTimelineRequest(seconds=self._length())
                        self.timeline = scheduler.GetTimeline(request, timeout=RPC_TIMEOUT)
                        self._stop.wait(self._interval)
            except CommandError:
                self._stop.wait(RETRY_SECONDS)

    def _read_use(self) -> None:
        """As often as NVML measures it anew. A thread of its own: a sick driver may not answer."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return
        while not self._stop.wait(_USE_SECONDS):
            self._busy.put(_busy([device.uuid for device in self._status.devices]))

    def _length(self) -> float:
        """Seconds: some turns, but not from before the scheduler was there."""
        status = self._status
        quanta = [_QUANTA * device.quantum_seconds for device in status.devices]
        return min(_LONGEST_SECONDS, max([_SHORTEST_SECONDS, *quanta]))


def _busy(uuids: Sequence[str]) -> dict[str, float]:
    """By the devices' UUIDs; those of which NVML does not say it, as MIG devices, are missing."""
    found = {}
    for uuid in uuids:
        with suppress(pynvml.NVMLError):
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            found[uuid] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    return found


@contextmanager
def feeding(run_dirs: Sequence[RunDir], interval: float, wake: Callable[[], None]) -> Iterator[Feed]:
    """A feed that is kept up to date; ``wake`` is called when something was said of a command."""
    with watching(run_dirs, interval) as updates:
        feed = Feed(run_dirs, interval, updates, wake)
        feed.start()
        try:
            yield feed
        finally:
            feed.stop()

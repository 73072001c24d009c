"""All processes that may leave their devices to the driver's checkpoint: who they are, and who tells them what."""

from __future__ import annotations

import asyncio
from typing import assert_never

from nvshare.log import Log
from nvshare.protocol import wire
from nvshare.scheduler.arenas.sharing import ShareFrame, Sharing
from nvshare.scheduler.arenas.storing import StoreFrame, Storing
from nvshare.scheduler.core.actions import Sleep, Wake
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.sleep_events import SleepAsked, SleepOffered, WakeWanted
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.recovery.awaited import Process as ProcessOnDevice
from nvshare.scheduler.recovery.contexts import Contexts
from nvshare.scheduler.registered_client import RegisteredClient
from nvshare.scheduler.sleeping.process import Means, Process, Say, SleepTimes, UnaskedError
from nvshare.scheduler.sleeping.sleepers import Start

_ROOT = 0
_SWAP = "swap"
_OLD = "its library does not know how"

Frame = wire.Asleep | wire.NotAsleep | wire.Wake | StoreFrame | ShareFrame


class Sleeping:
    """``see_to`` is what the dispatcher wants to be given."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        dispatcher: Dispatcher,
        start: Start,
        user: int,
        storing: Storing,
        sharing: Sharing,
        contexts: Contexts,
    ) -> None:
        """``start`` begins sleepers, which run as ``user``."""
        self._log = log
        self._dispatcher = dispatcher
        self._user = user
        self._storing, self._sharing, self._contexts = storing, sharing, contexts
        self._means = Means(loop, log, start, dispatcher.feed, self._forget)
        self._processes: dict[int, Process] = {}
        """By pid."""
        self._process_of: dict[int, Process] = {}
        """Of each client that may sleep."""
        self._kept_awake: dict[int, str] = {}
        """Why each of the other clients that know how may not."""

    @property
    def times(self) -> SleepTimes:
        """What sleeping and waking took until now."""
        return self._means.times

    def see_to(self, action: Sleep | Wake) -> None:
        """The core wants a process to sleep, or to wake."""
        process = self._processes[action.process]
        match action:
            case Sleep():
                for number in action.clients:
                    self._note_context(number)
                process.sleep()
            case Wake():
                for number in action.clients:
                    self._sharing.woke(number)
                process.wake()
            case _:
                assert_never(action)

    def offered(self, number: int, user: int, say: Say) -> None:
        """A client of this user knows how to sleep."""
        client = self._dispatcher.clients[number]
        reason = self._why_not(client, user)
        if reason:
            self._kept_awake[number] = reason
            return
        process = self._processes.get(client.pid)
        if process is None or process.started != client.started:
            process = self._processes[client.pid] = Process(client.pid, client.started, self._means)
        process.join(number, say)
        self._process_of[number] = process
        self._dispatcher.feed(SleepOffered(number, process.pid, self._contexts.of(_on_device(client))))

    def heard(self, number: int, frame: Frame) -> None:
        """Such a client said something; UnaskedError where that answers nothing that it was asked."""
        process = self._process_of.get(number)
        if isinstance(frame, StoreFrame | ShareFrame):
            self._heard_of_memory(number, process, frame)
            return
        if process is None:
            self._cannot_help(number, frame)
            return
        match frame:
            case wire.Asleep(request):
                process.has_closed(request)
            case wire.NotAsleep(request, text, final):
                process.has_not_closed(request, text, final)
            case wire.Wake():
                process.wants_to_wake()
            case _:
                assert_never(frame)

    def left(self, number: int) -> None:
        """The connection of a client ended, and the core knows."""
        self._kept_awake.pop(number, None)
        process = self._process_of.pop(number, None)
        if process is not None:
            process.leave(number)

    def sleep(self, number: int) -> str:
        """The operator wants a client's process to sleep; why it can't now, empty: it will as soon as it can."""
        process = self._process_of.get(number)
        if process is None:
            return self.awake_reason(number)
        try:
            self._dispatcher.feed(SleepAsked(process.pid))
        except IllegalEvent as error:
            return error.state
        return ""

    def awake_reason(self, number: int) -> str:
        """Why a client's process can't sleep, whatever it does; empty: as far as is known it can."""
        return "" if number in self._process_of else self._kept_awake.get(number, _OLD)

    def wake(self, number: int) -> None:
        """The operator wants a client's process awake."""
        process = self._process_of.get(number)
        if process is not None:
            self._dispatcher.feed(WakeWanted(process.pid))

    def stop(self) -> None:
        """Begins nothing more."""
        for process in self._processes.values():
            process.stop()

    def _note_context(self, number: int) -> None:
        shown = self._dispatcher.client(number)
        if shown.pinned_measured:
            self._contexts.note(_on_device(self._dispatcher.clients[number]), shown.pinned_bytes)

    def _why_not(self, client: RegisteredClient, user: int) -> str:
        if client.backend != _SWAP:
            return "its memory does not swap"
        if not client.started:
            return "the scheduler can't see its process"
        if self._user not in (_ROOT, user):
            return "it is another user's, and the scheduler is not root"
        return ""

    def _heard_of_memory(self, number: int, process: Process | None, frame: StoreFrame | ShareFrame) -> None:
        if process is None and number not in self._kept_awake:
            raise UnaskedError(_OLD)
        try:
            if isinstance(frame, ShareFrame):
                self._sharing.heard(number, frame)
            elif isinstance(frame, wire.Loaded) and self._sharing.has(number):
                self._sharing.loaded(number)
            else:
                self._storing.heard(number, frame)
        except IllegalEvent as error:
            raise UnaskedError(str(error)) from error
        if process is not None and isinstance(frame, wire.Loaded) and frame.lost:
            process.lose_data()

    def _cannot_help(self, number: int, frame: wire.Asleep | wire.NotAsleep | wire.Wake) -> None:
        """A former scheduler may have been able to put it to sleep; this one can't wake it."""
        if not isinstance(frame, wire.Wake) and frame.request:
            raise UnaskedError(f"nobody asked it to sleep as request {frame.request}")
        pid = self._dispatcher.clients[number].pid
        reason = self._kept_awake.get(number, _OLD)
        self._log.error("a process sleeps that this scheduler can't wake", client=number, pid=pid, reason=reason)

    def _forget(self, process: Process) -> None:
        if self._processes.get(process.pid) is process:
            del self._processes[process.pid]


def _on_device(client: RegisteredClient) -> ProcessOnDevice:
    return ProcessOnDevice(client.device, client.pid, client.started)

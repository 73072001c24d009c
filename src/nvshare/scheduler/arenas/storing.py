"""Carries out StoreArena: a file is made and sent, and the core hears what became of the client's host memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import assert_never

from nvshare import display
from nvshare.log import Log
from nvshare.protocol import wire
from nvshare.scheduler.arenas import files
from nvshare.scheduler.arenas.sending import Sending
from nvshare.scheduler.core.actions import StoreArena
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.sleep_events import ArenaLoaded, ArenaNotStored, ArenaStored, StoreEvent
from nvshare.scheduler.registered_client import RegisteredClient
from nvshare.scheduler.worker import Worker

StoreFrame = wire.Stored | wire.NotStored | wire.Loaded
"""What a client says of its file."""


@dataclass(slots=True)
class FileTimes:
    """What all clients together wrote into files and read from them, and how long they took for that."""

    written_bytes: int = 0
    write_seconds: float = 0.0
    """From StoreArena to STORED."""
    read_bytes: int = 0
    read_seconds: float = 0.0
    """From the first host memory for it to LOADED."""


@dataclass(slots=True, eq=False)
class _Request:
    """What a StoreArena asked for, until its client has answered."""

    client: int
    since: float
    is_sent: bool = False


class Storing:
    """The files that are on their way to clients, and those that clients have."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        folder: Path | None,
        clients: Callable[[], Mapping[int, RegisteredClient]],
        arena_bytes: Callable[[int], int],
        feed: Callable[[StoreEvent], None],
        was_stored: Callable[[int], None],
    ) -> None:
        """``folder``: where files are made; None: the core asks for none, but clients may come with some.

        ``arena_bytes``: how much of a client's is in its file. ``was_stored`` is told of those that come with one.
        """
        self._loop = loop
        self._log = log
        self._folder = folder
        self._clients = clients
        self._arena_bytes = arena_bytes
        self._sending = Sending(loop, clients)
        self._feed = feed
        self._was_stored = was_stored
        self._worker: Worker | None = None
        self._requests: dict[int, _Request] = {}
        """By client."""
        self._files: dict[int, float | None] = {}
        """Those that clients have, and since when host memory is made for what is in them; None: it is not."""
        self._failure = ""
        """The last one, which was logged."""
        self.times = FileTimes()

    def store(self, action: StoreArena) -> None:
        """Begins with a file for a client, which has none."""
        request = self._requests[action.client] = _Request(action.client, self._loop.time())
        folder = self._folder
        assert folder is not None
        self._files_worker.submit(partial(_made, folder), partial(self._on_made, request))

    def grows(self, number: int) -> None:
        """Host memory is made for a client, be it for what is in its file."""
        if number in self._files and self._files[number] is None:
            self._files[number] = self._loop.time()

    def heard(self, number: int, frame: StoreFrame) -> None:
        """A client said this; IllegalEvent where that answers nothing that it was asked."""
        request = self._requests.get(number)
        match frame:
            case wire.Stored():
                self._stored(number, request)
            case wire.NotStored(text):
                event = ArenaNotStored(number, text)
                if request is None or not request.is_sent:
                    raise IllegalEvent("it was sent no file", event)
                del self._requests[number]
                self._warn(text, self._clients()[number].pid)
                self._feed(event)
            case wire.Loaded():
                self._feed(ArenaLoaded(number))
                begun = self._files.pop(number)
                seconds = 0.0 if begun is None else self._loop.time() - begun
                self.times.read_bytes += self._arena_bytes(number)
                self.times.read_seconds += seconds
                self._tell("the data of a process is back from a file", number, seconds)
            case _:
                assert_never(frame)

    def forget(self, number: int) -> None:
        """A client is gone."""
        self._requests.pop(number, None)
        self._files.pop(number, None)

    def stop(self) -> None:
        """Makes nothing more."""
        self._requests.clear()

    def _stored(self, number: int, request: _Request | None) -> None:
        event = ArenaStored(number)
        if request is not None and not request.is_sent:
            raise IllegalEvent("it was sent no file yet", event)
        self._feed(event)
        self._files[number] = None
        if request is None:
            self._was_stored(number)
            return
        del self._requests[number]
        self._failure = ""
        seconds = self._loop.time() - request.since
        self.times.written_bytes += self._arena_bytes(number)
        self.times.write_seconds += seconds
        self._tell("the data of a process is in a file", number, seconds)

    def _tell(self, what: str, number: int, seconds: float) -> None:
        size = display.size(self._arena_bytes(number))
        self._log.info(what, pid=self._clients()[number].pid, size=size, seconds=round(seconds, 3))

    def _on_made(self, request: _Request, made: int | OSError) -> None:
        if isinstance(made, int):
            self._send(request, made)
        elif self._is_current(request):
            del self._requests[request.client]
            reason = f"no file can be made in {self._folder}: {made.strerror}"
            self._warn(reason, self._clients()[request.client].pid)
            self._feed(ArenaNotStored(request.client, reason))

    def _send(self, request: _Request, descriptor: int) -> None:
        def sent(went: bool) -> None:
            request.is_sent = went
            self._discard(descriptor)

        self._sending.send(request.client, wire.Store(), descriptor, partial(self._is_current, request), sent)

    def _is_current(self, request: _Request) -> bool:
        return self._requests.get(request.client) is request

    def _discard(self, descriptor: int) -> None:
        """A disk may be slow with that, too."""
        self._files_worker.close(descriptor)

    @property
    def _files_worker(self) -> Worker:
        if self._worker is None:
            # Most schedulers never need one.
            self._worker = Worker(self._loop, "files")
        return self._worker

    def _warn(self, reason: str, pid: int) -> None:
        """Once, until it is another reason or one could be stored."""
        if reason != self._failure:
            self._failure = reason
            self._log.warning("the data of a process can't go to a file, and stays in memory", reason=reason, pid=pid)


def _made(folder: Path) -> int | OSError:
    try:
        return files.make(folder)
    except OSError as error:
        return error

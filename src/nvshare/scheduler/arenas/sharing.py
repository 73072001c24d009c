"""Carries out ShareArena: asks a client that sleeps for sums, and has its equal blocks kept once, in a pack."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, assert_never

from nvshare import display
from nvshare.log import Log
from nvshare.protocol import wire
from nvshare.protocol.catalogue import BLOCK_BYTES, KEY_BYTES
from nvshare.scheduler.arenas import catalogues, matching, segment
from nvshare.scheduler.arenas.filling import Failed, Fill, Filling
from nvshare.scheduler.arenas.matching import Blocks
from nvshare.scheduler.arenas.sending import Sending
from nvshare.scheduler.core.actions import ShareArena
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.sleep_events import ArenaLoaded, ArenaNotShared, ArenaShared, StoreEvent
from nvshare.scheduler.registered_client import FrameWithDescriptor, RegisteredClient
from nvshare.scheduler.worker import Worker

_Result = TypeVar("_Result")
_UNEQUAL = "others have too little that is equal"
_WANTED = "its process is wanted awake"

ShareFrame = wire.Summed | wire.Packed | wire.Deduped
"""What a client says of its equal blocks."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pack:
    descriptor: int
    bytes: int
    name: int
    """Its inode."""
    owner: str
    blocks: Blocks
    clients: set[int] = field(default_factory=set)
    """Who has something there, or may have soon."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a client has that is equal."""

    sums: Sequence[int]
    pack: int | None
    """In this pack; None: in none that there is."""
    blocks: Blocks | None
    """Of the pack, or of a new one; None: it is too little."""


@dataclass(slots=True, eq=False)
class _Request:
    """What a ShareArena asked for, until the core has heard what became of it."""

    action: ShareArena
    owner: str
    since: float
    catalogue: int | None = None
    awaited: type[ShareFrame] | None = None
    """What its client says next."""
    fill: Fill | None = None
    pack: _Pack | None = None

    @property
    def client(self) -> int:
        return self.action.client


class Sharing:
    """The packs, and what was found out of clients that have nothing in one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        clients: Callable[[], Mapping[int, RegisteredClient]],
        filling: Callable[[], Filling],
        arena_bytes: Callable[[int], int],
        is_asleep: Callable[[int], bool],
        feed: Callable[[StoreEvent], None],
        was_shared: Callable[[int, wire.Deduped], None],
    ) -> None:
        """``arena_bytes``: how much host memory a client has; ``is_asleep``: whether it sleeps, and nobody wants it
        awake. ``was_shared`` is told of those that come with blocks in a pack.
        """
        self._loop = loop
        self._log = log
        self._clients = clients
        self._filling = filling
        self._arena_bytes = arena_bytes
        self._is_asleep = is_asleep
        self._feed = feed
        self._was_shared = was_shared
        self._sending = Sending(loop, clients)
        self._secret = secrets.token_bytes(KEY_BYTES)
        self._worker: Worker | None = None
        self._requests: dict[int, _Request] = {}
        """By client."""
        self._packs: dict[int, _Pack] = {}
        """Those that this scheduler has made and clients have, by name."""
        self._sums: dict[int, tuple[str, Sequence[int]]] = {}
        """Of clients that sleep with nothing in a pack, with their owners."""
        self._away: dict[int, float | None] = {}
        """Clients that have something in a pack, and since when host memory is made for that; None: it is not."""

    def share(self, action: ShareArena) -> None:
        """Begins with a client, which is asked for nothing."""
        owner = self._clients()[action.client].owner
        request = self._requests[action.client] = _Request(action, owner, self._loop.time())
        if action.client not in self._sums:
            self._make_catalogue(request)
            return

        def looked(found: _Found) -> None:
            if not self._is_current(request):
                return
            if found.blocks is None:
                self._give_up(request, _UNEQUAL)
            else:
                self._make_catalogue(request)

        # Of one that sleeps they are the same as before: a look tells whether it is worth to have them made again.
        _, sums = self._sums[action.client]
        self._do(partial(_match, sums, *self._given(request)), looked)

    def has(self, number: int) -> bool:
        """Whether a client has blocks in a pack."""
        return number in self._away

    def grows(self, number: int) -> None:
        """Host memory is made for a client, be it for what is in a pack."""
        if number in self._away and self._away[number] is None:
            self._away[number] = self._loop.time()

    def heard(self, number: int, frame: ShareFrame) -> None:
        """A client said this; IllegalEvent where that answers nothing that it was asked."""
        request = self._requests.get(number)
        awaited = None if request is None else request.awaited
        if isinstance(frame, wire.Deduped) and frame.away_bytes and awaited is not wire.Deduped:
            self._had(number, frame)
            return
        if request is None and number in self._away and isinstance(frame, wire.Summed) and not frame.count:
            # It was asked before it had said that it has blocks in a pack.
            return
        if request is None or awaited is not type(frame):
            raise IllegalEvent("it was not asked for that", ArenaNotShared(number, frame.text))
        match frame:
            case wire.Summed():
                self._summed(request, frame)
            case wire.Packed(text):
                request.awaited = None
                self._go_on(request, text, self._seal)
            case wire.Deduped():
                self._deduped(request, frame)
            case _:
                assert_never(frame)

    def loaded(self, number: int) -> None:
        """A client has all its blocks again; IllegalEvent if it can't have."""
        self._feed(ArenaLoaded(number))
        begun = self._away.pop(number)
        self._leave(number)
        seconds = 0.0 if begun is None else self._loop.time() - begun
        pid = self._clients()[number].pid
        self._log.info("the equal data of a process is back in memory of its own", pid=pid, seconds=round(seconds, 3))

    def woke(self, number: int) -> None:
        """What a client has may change from now on."""
        self._sums.pop(number, None)

    def forget(self, number: int) -> None:
        """A client is gone."""
        request = self._requests.pop(number, None)
        if request is not None:
            self._clean_up(request)
        self._sums.pop(number, None)
        self._away.pop(number, None)
        self._leave(number)

    def stop(self) -> None:
        """Asks nobody more."""
        for number in list(self._requests):
            self._clean_up(self._requests.pop(number))

    def _had(self, number: int, frame: wire.Deduped) -> None:
        """A client had blocks in a pack when it registered."""
        self._feed(_event(number, frame))
        if request := self._requests.pop(number, None):
            self._clean_up(request)
        self._away[number] = None
        if pack := self._packs.get(frame.pack):
            pack.clients.add(number)
        self._was_shared(number, frame)

    def _make_catalogue(self, request: _Request) -> None:
        key = hashlib.blake2b(request.owner.encode(), key=self._secret, digest_size=KEY_BYTES).digest()
        room = self._arena_bytes(request.client) // BLOCK_BYTES
        self._do(partial(_or_error, partial(catalogues.make, key, room)), partial(self._on_catalogue, request))

    def _on_catalogue(self, request: _Request, made: int | OSError) -> None:
        if isinstance(made, OSError):
            self._failed(request, made)
        elif self._is_current(request):
            request.catalogue = made
            self._send(request, wire.Sum(), made, wire.Summed)
        else:
            os.close(made)

    def _summed(self, request: _Request, frame: wire.Summed) -> None:
        if frame.count > self._arena_bytes(request.client) // BLOCK_BYTES:
            raise IllegalEvent("it has no room for so many", ArenaNotShared(request.client, ""))
        request.awaited = None
        self._go_on(request, "" if frame.count else frame.text or _UNEQUAL, partial(self._look, count=frame.count))

    def _look(self, request: _Request, count: int) -> None:
        assert request.catalogue is not None
        work = partial(_read_and_match, request.catalogue, count, *self._given(request))
        self._do(partial(_or_error, work), partial(self._on_found, request))

    def _given(self, request: _Request) -> tuple[dict[int, Blocks], list[Sequence[int]], int]:
        """The packs of its owner, the sums of the owner's other sleepers, and how large a new pack may be."""
        packs = {name: pack.blocks for name, pack in self._packs.items() if pack.owner == request.owner}
        others = [sums for number, (owner, sums) in self._sums.items() if owner == request.owner]
        if request.client in self._sums:
            others.remove(self._sums[request.client][1])
        return packs, others, request.action.pack_bytes

    def _on_found(self, request: _Request, found: _Found | OSError) -> None:
        if isinstance(found, OSError):
            self._failed(request, found)
            return
        if not self._is_current(request):
            return
        self._sums[request.client] = request.owner, found.sums
        pack = None if found.pack is None else self._packs.get(found.pack)
        if found.blocks is None or (found.pack is not None and pack is None):
            self._give_up(request, _UNEQUAL)
        elif pack is None:
            self._go_on(request, "", partial(self._fill, blocks=found.blocks))
        else:
            pack.clients.add(request.client)
            request.pack = pack
            self._go_on(request, "", self._dedup)

    def _fill(self, request: _Request, blocks: Blocks) -> None:
        size_bytes = len(blocks) * BLOCK_BYTES

        def filled(made: int | Failed) -> None:
            request.fill = None
            if isinstance(made, Failed):
                self._give_up(request, made.reason)
                return
            inode = os.fstat(made).st_ino
            request.pack = _Pack(made, size_bytes, inode, request.owner, blocks, {request.client})
            self._go_on(request, "", partial(self._send, frame=wire.Pack(), descriptor=made, awaited=wire.Packed))

        request.fill = self._filling().begin(size_bytes, filled, is_pack=True)

    def _seal(self, request: _Request) -> None:
        assert request.pack is not None
        pack = request.pack

        def sealed(failed: OSError | None) -> None:
            if failed is not None:
                self._failed(request, failed)
            elif self._is_current(request):
                self._go_on(request, "", self._dedup)

        self._do(partial(_or_error, partial(segment.seal, pack.descriptor)), sealed)

    def _dedup(self, request: _Request) -> None:
        assert request.pack is not None
        self._send(request, wire.Dedup(), request.pack.descriptor, wire.Deduped)

    def _deduped(self, request: _Request, frame: wire.Deduped) -> None:
        pack = request.pack
        assert pack is not None
        number = request.client
        if not frame.away_bytes:
            self._give_up(request, frame.text or _UNEQUAL)
            return
        if (frame.pack, frame.pack_bytes) != (pack.name, pack.bytes):
            raise IllegalEvent("that is another pack", _event(number, frame))
        del self._requests[number]
        request.pack = None
        self._clean_up(request)
        self._packs[pack.name] = pack
        self._sums.pop(number, None)
        self._away[number] = None
        self._log.info(
            "equal data of processes is kept once",
            pid=self._clients()[number].pid,
            size=display.size(frame.away_bytes),
            pack=display.size(pack.bytes),
            processes=len(pack.clients),
            seconds=round(self._loop.time() - request.since, 3),
        )
        # The next one may come to this pack.
        self._feed(_event(number, frame))

    def _go_on(self, request: _Request, failed: str, step: Callable[[_Request], None]) -> None:
        """Takes the next step, unless the last one failed or somebody wants the client awake."""
        if failed or not self._is_asleep(request.client):
            self._give_up(request, failed or _WANTED)
        else:
            step(request)

    def _send(self, request: _Request, frame: FrameWithDescriptor, descriptor: int, awaited: type[ShareFrame]) -> None:
        # Of its own: it may lie in the outbox of a client for which nothing more is done.
        copy = _or_error(partial(os.dup, descriptor))
        if isinstance(copy, OSError):
            self._failed(request, copy)
            return

        def sent(went: bool) -> None:
            request.awaited = awaited if went else None
            self._close(copy)

        self._sending.send(request.client, frame, copy, partial(self._is_current, request), sent)

    def _failed(self, request: _Request, error: OSError) -> None:
        if self._is_current(request):
            self._give_up(request, error.strerror or str(error))

    def _give_up(self, request: _Request, reason: str) -> None:
        del self._requests[request.client]
        self._clean_up(request)
        self._log.debug("the data of a process stays its own", reason=reason, pid=self._clients()[request.client].pid)
        self._feed(ArenaNotShared(request.client, reason))

    def _clean_up(self, request: _Request) -> None:
        """Nothing is left of it."""
        if request.fill is not None:
            self._filling().give_up(request.fill)
        if request.catalogue is not None:
            self._close(request.catalogue)
        if request.pack is not None:
            self._drop(request.pack, request.client)

    def _leave(self, number: int) -> None:
        for pack in [pack for pack in self._packs.values() if number in pack.clients]:
            self._drop(pack, number)

    def _drop(self, pack: _Pack, number: int) -> None:
        """A client has nothing there; with the last one the pack is closed."""
        pack.clients.discard(number)
        if not pack.clients:
            self._packs.pop(pack.name, None)
            self._close(pack.descriptor)

    def _is_current(self, request: _Request) -> bool:
        return self._requests.get(request.client) is request

    def _close(self, descriptor: int) -> None:
        """It may be the last one of some GiB; what is at work with it is done before."""
        self._do(partial(os.close, descriptor), lambda _none: None)

    def _do(self, work: Callable[[], _Result], done: Callable[[_Result], None]) -> None:
        """In a thread: matching takes some 10 ms for each GiB."""
        if self._worker is None:
            # Most schedulers never need one.
            self._worker = Worker(self._loop, "sharing")
        self._worker.submit(work, done)


def _match(
    sums: Sequence[int], packs: Mapping[int, Blocks], others: Sequence[Sequence[int]], most_bytes: int
) -> _Found:
    name = matching.best(sums, packs)
    blocks = matching.new_pack(sums, others, most_bytes) if name is None else packs[name]
    return _Found(sums, name, blocks)


def _read_and_match(
    catalogue: int, count: int, packs: Mapping[int, Blocks], others: Sequence[Sequence[int]], most_bytes: int
) -> _Found:
    """Its client is told then which of its blocks are where; OSError."""
    found = _match(catalogues.read(catalogue, count), packs, others, most_bytes)
    if found.blocks is not None:
        catalogues.write(catalogue, found.sums, matching.blocks_of(found.sums, found.blocks))
    return found


def _or_error(work: Callable[[], _Result]) -> _Result | OSError:
    try:
        return work()
    except OSError as error:
        return error


def _event(number: int, frame: wire.Deduped) -> ArenaShared:
    return ArenaShared(number, frame.away_bytes, frame.pack, frame.pack_bytes)

"""The requests for memory that one client gives and another one maps. Pure.

Each request is for one part of what a key is for, and has one answer. So as many descriptors are on their way as there
are requests. When the giver does not answer in time the request ends; the giver still owes its answer, which is thrown
away when it comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from nvshare.protocol import wire

MOST_KEYS = 1024
"""Of one client."""
MOST_OPEN = 16
"""Requests of one client that have no answer yet."""
MOST_ASKED = 16
"""Requests to one client that it has not answered; others wait."""
ANSWER_SECONDS = 5.0
"""After so long the client that asked is told that nobody answers."""
UNKNOWN_SECONDS = 1.0
"""A key is given on to others faster than its owner's words come here: so long an unknown one is waited for."""
YOUNG_SECONDS = 5.0
"""In the first seconds of a scheduler, when clients come back one by one, for this long."""

_NOBODY = "no client of this device gives such memory, or not any more"
_NOT_YOURS = "it is of another container, or of another user"
_GONE = "the process that gave it has ended"
_SILENT = "the process that gave it does not answer"
_TOO_MANY = f"this process has {MOST_OPEN} such requests already"


class ShareError(Exception):
    """A client said what it must not; the message says what."""


@dataclass(frozen=True, slots=True)
class Tell:
    """What to send to a client."""

    client: int
    frame: wire.AskShared | wire.Shared | wire.NotShared


@dataclass(slots=True, eq=False)
class _Open:
    """One request."""

    opener: int
    request: int
    key: bytes
    index: int
    deadline: float
    owner: int = 0
    """Who is to give it; 0: nobody is known yet."""
    over: bool = False
    """The opener has its answer, or has gone."""


@dataclass(slots=True)
class _Client:
    device: str
    keys: set[bytes] = field(default_factory=set)
    opens: dict[int, _Open] = field(default_factory=dict)
    """By the client's own number."""
    asked: dict[int, _Open] = field(default_factory=dict)
    """What it has to answer, by our number."""
    queue: deque[_Open] = field(default_factory=deque)
    """What it will be asked next."""
    last: int = 0


class ShareTable:
    """The keys of all clients, and the requests."""

    def __init__(self, may_have: Callable[[int, int], bool], now: float) -> None:
        """``may_have``: whether the first client may have memory of the second one."""
        self._may_have = may_have
        self._young_until = now + YOUNG_SECONDS
        self._clients: dict[int, _Client] = {}
        self._owners: dict[bytes, dict[int, None]] = {}
        self._running: dict[_Open, None] = {}
        """Requests without an answer."""

    def came(self, client: int, device: str) -> None:
        """A client has said something about memory that is shared, for the first time."""
        self._clients[client] = _Client(device)

    def gone(self, client: int) -> list[Tell]:
        """The connection of such a client ended."""
        left = self._clients.pop(client)
        for key in left.keys:
            self._disown(key, client)
        for each in left.opens.values():
            self._end(each)
        tells: list[Tell] = []
        for each in (*left.asked.values(), *left.queue):
            tells += self._refuse(each, _GONE)
        return tells

    def expected(self, client: int) -> int:
        """How many descriptors a client may send now."""
        return len(self._clients[client].asked)

    def shares(self, client: int, key: bytes, now: float) -> list[Tell]:
        """A client can be asked for what the key is for."""
        own = self._clients[client]
        own.keys.add(key)
        if len(own.keys) > MOST_KEYS:
            raise ShareError(f"it gives more than {MOST_KEYS} pieces of memory")
        self._owners.setdefault(key, {})[client] = None
        waiting = [each for each in self._running if each.key == key and not each.owner]
        for each in waiting:
            each.deadline = now + ANSWER_SECONDS
        return [tell for each in waiting for tell in self._ask(each)]

    def unshares(self, client: int, key: bytes) -> None:
        """It can't any more."""
        self._clients[client].keys.discard(key)
        self._disown(key, client)

    def opens(self, client: int, frame: wire.OpenShared, now: float) -> list[Tell]:
        """A client wants a part of what the key is for."""
        own = self._clients[client]
        if frame.request in own.opens:
            raise ShareError(f"it has sent request {frame.request} already")
        if len(own.opens) >= MOST_OPEN:
            return [Tell(client, wire.NotShared(frame.request, _TOO_MANY))]
        each = _Open(client, frame.request, frame.key, frame.index, now + ANSWER_SECONDS)
        own.opens[frame.request] = each
        self._running[each] = None
        if frame.key in self._owners:
            return self._ask(each)
        each.deadline = max(now + UNKNOWN_SECONDS, self._young_until)
        return []

    def answers(self, client: int, frame: wire.Shared | wire.NotShared) -> list[Tell]:
        """A client answers; of a Shared the descriptor goes with the one for the client that asked, if there is one."""
        own = self._clients[client]
        each = own.asked.pop(frame.request, None)
        if each is None:
            raise ShareError(f"it answers request {frame.request}, which it does not have")
        tells: list[Tell] = []
        if not each.over:
            answer: wire.Shared | wire.NotShared
            if isinstance(frame, wire.Shared):
                answer = wire.Shared(each.request, frame.index, frame.count, frame.part_bytes, frame.offset_bytes)
            else:
                answer = wire.NotShared(each.request, frame.text)
            tells.append(Tell(each.opener, answer))
            self._answered(each)
        return tells + self._ask_next(client)

    def deadline(self) -> float | None:
        """When ``handle_timer`` has something to do."""
        return min((each.deadline for each in self._running), default=None)

    def handle_timer(self, now: float) -> list[Tell]:
        """Tells those whose time is over."""
        late = [each for each in self._running if each.deadline <= now]
        return [tell for each in late for tell in self._refuse(each, _SILENT if each.owner else _NOBODY)]

    def _ask(self, each: _Open) -> list[Tell]:
        device = self._clients[each.opener].device
        owners = [one for one in self._owners[each.key] if self._clients[one].device == device and one != each.opener]
        if not owners:
            return self._refuse(each, _NOBODY)
        allowed = next((one for one in owners if self._may_have(each.opener, one)), None)
        if allowed is None:
            return self._refuse(each, _NOT_YOURS)
        each.owner = allowed
        self._clients[allowed].queue.append(each)
        return self._ask_next(allowed)

    def _ask_next(self, client: int) -> list[Tell]:
        own = self._clients[client]
        tells = []
        while own.queue and len(own.asked) < MOST_ASKED:
            each = own.queue.popleft()
            if not each.over:
                own.last = own.last % 0xFFFFFFFF + 1
                own.asked[own.last] = each
                tells.append(Tell(client, wire.AskShared(own.last, each.key, each.index)))
        return tells

    def _refuse(self, each: _Open, text: str) -> list[Tell]:
        if each.over:
            return []
        self._answered(each)
        return [Tell(each.opener, wire.NotShared(each.request, text))]

    def _answered(self, each: _Open) -> None:
        self._end(each)
        del self._clients[each.opener].opens[each.request]

    def _end(self, each: _Open) -> None:
        each.over = True
        self._running.pop(each, None)

    def _disown(self, key: bytes, client: int) -> None:
        owners = self._owners.get(key, {})
        owners.pop(client, None)
        if not owners:
            self._owners.pop(key, None)

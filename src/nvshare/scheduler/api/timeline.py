"""Who waited, held and left when, and when memory moved: what the core was told and said, kept for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from nvshare.scheduler.core.actions import Action, Grant, Revoke
from nvshare.scheduler.core.events import (
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    Event,
    LockReleased,
    LockRequested,
    ResidencyReported,
)
from nvshare.scheduler.registered_client import RegisteredClient

KEPT: Final = 1 << 15
"""Spans: a day of turns of 30 s each on eight devices; some MiB."""
PAUSE_SECONDS: Final = 0.25
"""Memory that moves again so soon is still the same move."""


class What(Enum):
    """What a client did."""

    WAITING = "waiting"
    HOLDING = "holding"
    LEAVING = "leaving"
    """It was asked to give the lock back, and what it had submitted still ran."""
    OUT = "out"
    """Its memory left the device."""
    IN = "in"
    """Its memory came in."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whose spans there are."""

    client: int
    device: str
    pid: int
    command: str
    container: str
    """As the core calls it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a client did; times are the event loop's."""

    client: int
    what: What
    begin: float
    end: float
    bytes: int = 0
    """That moved."""


_CLAIMED: Final = {
    ClaimedState.WAITING: What.WAITING,
    ClaimedState.HOLDING: What.HOLDING,
    ClaimedState.DRAINING: What.LEAVING,
}


@dataclass(slots=True)
class _Client:
    does: What | None
    since: float
    grant: int
    out_bytes: int = 0
    footprint_bytes: int = 0
    reported_at: float | None = None
    move: Span | None = None
    """The last one, which may go on."""
    kept: bool = False
    """There are spans of it."""
    container: str = ""


class Timeline:
    """Follows every client from event to event; the oldest spans are forgotten."""

    def __init__(self, clients: Callable[[], Mapping[int, RegisteredClient]], kept: int = KEPT) -> None:
        self._registered = clients
        self._clients: dict[int, _Client] = {}
        self._spans = deque[Span](maxlen=kept)
        self._gone = deque[Person](maxlen=kept)

    def happened(self, event: Event | None, actions: Sequence[Action], now: float) -> None:
        """An event (None: the timer) that the core answered with these actions; see ``dispatcher.Observe``."""
        match event:
            case ClientRegistered(number, claimed=claimed, grant=grant):
                self._clients[number] = _Client(_CLAIMED.get(claimed), now, grant)
            case ContainerFound(number, container):
                self._clients[number].container = container
            case LockRequested(number):
                self._begin(number, What.WAITING, now)
            case LockReleased(number, grant):
                if grant == self._clients[number].grant:
                    self._begin(number, None, now)
            case ResidencyReported():
                self._moved(event, now)
            case ClientGone(number):
                self._begin(number, None, now)
                self._close_move(number)
                if self._clients[number].kept:
                    self._gone.append(self._person(number))
                del self._clients[number]
            case _:
                pass
        for action in actions:
            match action:
                case Grant(number, grant):
                    self._begin(number, What.HOLDING, now)
                    self._clients[number].grant = grant
                case Revoke(number):
                    self._begin(number, What.LEAVING, now)
                case _:
                    pass

    def spans(self, since: float, now: float) -> Iterator[Span]:
        """Those of which something is after ``since``; what goes on ends ``now``."""
        yield from (span for span in self._spans if span.end >= since)
        for number, client in self._clients.items():
            if client.move is not None and client.move.end >= since:
                yield client.move
            if client.does is not None:
                yield Span(number, client.does, client.since, now)

    def people(self, clients: Set[int]) -> list[Person]:
        """Who these clients are, or were."""
        gone = [person for person in self._gone if person.client in clients]
        return gone + [self._person(number) for number in self._clients if number in clients]

    def _begin(self, number: int, what: What | None, now: float) -> None:
        client = self._clients[number]
        if client.does is what:
            return
        if client.does is not None:
            self._keep(client, Span(number, client.does, client.since, now))
        client.does, client.since = what, now

    def _moved(self, event: ResidencyReported, now: float) -> None:
        client = self._clients[event.client]
        before_at = client.reported_at
        moved = event.out_bytes - client.out_bytes
        freed = max(0, client.footprint_bytes - event.footprint_bytes)
        client.out_bytes, client.footprint_bytes, client.reported_at = event.out_bytes, event.footprint_bytes, now
        if moved < 0:
            moved = min(0, moved + freed)
        if not moved or before_at is None:
            return
        what, last = What.OUT if moved > 0 else What.IN, client.move
        if last is not None and last.what is what and now - last.end < PAUSE_SECONDS:
            client.move = replace(last, end=now, bytes=last.bytes + abs(moved))
            return
        self._close_move(event.client)
        begin = max(before_at, now - PAUSE_SECONDS)
        client.move = Span(event.client, what, begin, now, abs(moved))

    def _close_move(self, number: int) -> None:
        client = self._clients[number]
        if client.move is not None:
            self._keep(client, client.move)
            client.move = None

    def _keep(self, client: _Client, span: Span) -> None:
        client.kept = True
        self._spans.append(span)

    def _person(self, number: int) -> Person:
        client = self._registered()[number]
        shown = client.description
        return Person(number, client.device, shown.pid, shown.command, self._clients[number].container)

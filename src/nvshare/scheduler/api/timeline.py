"""Who waited, held, left and slept when, and when memory moved: what the core was told and said, kept for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from nvshare.scheduler.core.actions import Action, Grant, Revoke, Sleep, Wake
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
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepOffered, StayedAwake, WakeWanted, Woke
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
    ASLEEP = "asleep"
    """Its process had nothing on its devices."""
    WAKING = "waking"
    """That was being undone, or there was no room for it yet."""
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


_SLEEPS: Final = (What.ASLEEP, What.WAKING)


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
    process: int | None = None
    """Which can sleep; None: it can't."""
    waits: bool = False
    """It has work and no lock, whether it is awake or not."""


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
                does = _CLAIMED.get(claimed)
                self._clients[number] = _Client(does, now, grant, waits=does is What.WAITING)
            case ContainerFound(number, container):
                self._clients[number].container = container
            case LockRequested(number):
                client = self._clients[number]
                client.waits = True
                if client.does not in _SLEEPS:
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
                self._slept(event, now)
        self._acted(actions, now)

    def _slept(self, event: Event | None, now: float) -> None:
        match event:
            case SleepOffered(number, process):
                self._clients[number].process = process
            case FellAsleep(process):
                self._begin_all(self._clients_of(process), What.ASLEEP, now)
            case WakeWanted(process):
                sleeping = [each for each in self._clients_of(process) if self._clients[each].does in _SLEEPS]
                self._begin_all(sleeping, What.WAKING, now)
            case StayedAwake(process) | Woke(process):
                self._awake(self._clients_of(process), now)
            case _:
                pass

    def _acted(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            match action:
                case Grant(number, grant):
                    self._begin(number, What.HOLDING, now)
                    self._clients[number].grant, self._clients[number].waits = grant, False
                case Revoke(number):
                    self._begin(number, What.LEAVING, now)
                case Sleep(_, numbers):
                    self._begin_all(numbers, What.ASLEEP, now)
                case Wake(_, numbers):
                    self._begin_all(numbers, What.WAKING, now)
                case _:
                    pass

    def asleep_seconds(self, number: int, now: float) -> float:
        """For how long a client has been asleep, or waking; 0: it is neither."""
        client = self._clients[number]
        return now - client.since if client.does in _SLEEPS else 0.0

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

    def _clients_of(self, process: int) -> list[int]:
        return [number for number, client in self._clients.items() if client.process == process]

    def _awake(self, numbers: Iterable[int], now: float) -> None:
        for number in numbers:
            client = self._clients[number]
            if client.does in _SLEEPS:
                self._begin(number, What.WAITING if client.waits else None, now)

    def _begin_all(self, numbers: Iterable[int], what: What, now: float) -> None:
        for number in numbers:
            self._begin(number, what, now)

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

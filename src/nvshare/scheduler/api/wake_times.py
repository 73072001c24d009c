"""How long it takes until a client whose process was asleep works again, part by part. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nvshare.scheduler.api.turn_times import Figure, Measured
from nvshare.scheduler.core.actions import Action, Grant, Sleep, Wake
from nvshare.scheduler.core.events import ClientGone, ClientRegistered, Event, LockRequested
from nvshare.scheduler.core.sleep_events import SleepOffered, WakeWanted, Woke


@dataclass(slots=True)
class _Client:
    device: str
    process: int | None = None
    """None: it can't sleep."""
    wanted_at: float | None = None
    """When the first call waited at its door since it was put to sleep."""
    wakes_since: float | None = None
    has_woken: bool = False
    """And has not asked for the lock since then."""
    asked_at: float | None = None
    """When it did."""


class WakeTimes:
    """Follows every client from event to event."""

    def __init__(self) -> None:
        self._clients: dict[int, _Client] = {}

    def happened(self, event: Event | None, actions: Sequence[Action], now: float) -> list[Measured]:
        """What can be measured after an event (None: the timer) that the core answered with these actions."""
        measured: list[Measured] = []
        match event:
            case ClientRegistered(number, device):
                self._clients[number] = _Client(device)
            case ClientGone(number):
                del self._clients[number]
            case SleepOffered(number, process):
                self._clients[number].process = process
            case WakeWanted(process):
                for _number, client in self._of(process):
                    client.wanted_at = now if client.wanted_at is None else client.wanted_at
            case Woke(process):
                for number, client in self._of(process):
                    measured += _since(Figure.WAKE_CONTEXT, number, client, client.wakes_since, now)
                    client.wakes_since, client.has_woken = None, True
            case LockRequested(number) if self._clients[number].has_woken:
                self._clients[number].asked_at, self._clients[number].has_woken = now, False
            case _:
                pass
        for action in actions:
            measured += self._acted(action, now)
        return measured

    def _acted(self, action: Action, now: float) -> Iterable[Measured]:
        match action:
            case Sleep(_, numbers):
                for number in numbers:
                    self._clients[number].wanted_at = None
            case Wake(_, numbers):
                for number in numbers:
                    client = self._clients[number]
                    client.wakes_since = now
                    yield from _since(Figure.WAKE_ROOM, number, client, client.wanted_at, now)
            case Grant(number):
                client = self._clients[number]
                yield from _since(Figure.WAKE_DATA, number, client, client.asked_at, now)
                client.asked_at = None
            case _:
                pass

    def _of(self, process: int) -> list[tuple[int, _Client]]:
        return [(number, client) for number, client in self._clients.items() if client.process == process]


def _since(figure: Figure, number: int, client: _Client, begin: float | None, now: float) -> list[Measured]:
    return [] if begin is None else [Measured(figure, number, client.device, now - begin)]

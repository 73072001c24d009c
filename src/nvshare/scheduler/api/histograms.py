"""The times of turns and of waking as Prometheus's histograms, by device and by pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import Histogram

from nvshare.scheduler.api.places import LABELS, Labels, Places, in_pod
from nvshare.scheduler.api.turn_times import Figure, Measured, TurnTimes
from nvshare.scheduler.api.wake_times import WakeTimes
from nvshare.scheduler.core.actions import Action
from nvshare.scheduler.core.events import ClientGone, Event
from nvshare.scheduler.registered_client import RegisteredClient

_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
_MOST_PENDING = 1000
_TEXTS = {
    Figure.WAIT: "From a client's request of the lock to its grant.",
    Figure.TURN: "From a grant to its release, or the client's end.",
    Figure.DRAIN: "From the scheduler's wish to have the lock back to its release.",
    Figure.HAND_OVER: "From the wish to have the lock back, or its release, to the grant of a client that waited.",
    Figure.STALL: "Of a hand-over where memory swaps: from the lock's release to the grant.",
    Figure.WAKE_ROOM: "Of a client that is asleep: from its first call until there is room for its context.",
    Figure.WAKE_CONTEXT: "From then until it has its context back.",
    Figure.WAKE_DATA: "Of a client that has woken: from its first request of the lock to the grant, with its data.",
}


class TurnHistograms:
    """Used in the event loop only; the histograms may be read in any thread."""

    def __init__(self, clients: Callable[[], Mapping[int, RegisteredClient]], now: Callable[[], float]) -> None:
        """``clients``: those that are registered; one that is about to go is still there when it is told of."""
        self.histograms = {
            figure: Histogram(f"nvshare_{figure.value}_seconds", text, LABELS, registry=None, buckets=_BUCKETS)
            for figure, text in _TEXTS.items()
        }
        self._clients = clients
        self._places = Places(now)
        self._times = TurnTimes()
        self._wake_times = WakeTimes()
        self._pending: list[Measured] = []
        """Who a client is becomes known a moment after it registers, and may be asked for when somebody looks."""

    def happened(self, event: Event | None, actions: Sequence[Action], now: float) -> None:
        """See ``dispatcher.Observe``."""
        self._pending += self._times.happened(event, actions, now)
        self._pending += self._wake_times.happened(event, actions, now)
        if len(self._pending) > _MOST_PENDING or isinstance(event, ClientGone):
            self._count()

    def bring_up_to_date(self) -> None:
        """To be called before the histograms are read."""
        self._count()
        self._remove_old()

    def _count(self) -> None:
        pending, self._pending = self._pending, []
        for measured in pending:
            labels = self._labels(measured.client, measured.device)
            self.histograms[measured.figure].labels(*labels).observe(measured.seconds)

    def _labels(self, number: int, device: str) -> Labels:
        client = self._clients().get(number)
        return (device, "", "", "") if client is None else self._place(client, device)

    def _place(self, client: RegisteredClient, device: str) -> Labels:
        return self._places.admit(in_pod(device, client.description.identity, client.account))

    def _remove_old(self) -> None:
        for client in self._clients().values():
            self._place(client, client.device)
        for labels in self._places.expire():
            for histogram in self.histograms.values():
                histogram.remove(*labels)

"""What Prometheus is told about the scheduler, made from one picture of it at every scrape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from nvshare.scheduler.connection import Fault
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.snapshot import ShownState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nvshare.scheduler.core.snapshot import DeviceSnapshot

    Figure = Callable[[DeviceSnapshot], float]
    Family = CounterMetricFamily | GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class Picture:
    """The scheduler at one moment."""

    devices: tuple[DeviceSnapshot, ...]
    allocations_without_client: Mapping[str, int]
    """Containers by device; devices without any may be left out."""
    connections: int
    drops: Mapping[Fault, int]
    """Since the start."""
    accept_pauses: int
    """Since the start."""


class SchedulerCollector(Collector):
    """Asks for a picture at every scrape."""

    def __init__(self, version: str, picture: Callable[[], Picture | None]) -> None:
        """``picture`` is called in a thread of the web server; None: the event loop does not answer."""
        self._version = version
        self._picture = picture

    def describe(self) -> list[Family]:
        """Nothing: to register needs no picture."""
        return []

    def collect(self) -> Iterator[Family]:
        """Every figure of now."""
        picture = self._picture()
        responding = GaugeMetricFamily("nvshare_scheduler_responding", "1: the scheduler's event loop answers.")
        responding.add_metric([], picture is not None)
        yield responding
        info = GaugeMetricFamily("nvshare_scheduler_info", "Always 1.", labels=["version"])
        info.add_metric([self._version], 1)
        yield info
        if picture is not None:
            yield from _of_devices(picture)
            yield from _of_scheduler(picture)


def _of_devices(picture: Picture) -> Iterator[Family]:
    for name, text, figure in _GAUGES:
        family = GaugeMetricFamily(f"nvshare_{name}", text, labels=["gpu"])
        for view in picture.devices:
            family.add_metric([view.device], figure(view))
        yield family
    for name, text, figure in _COUNTERS:
        counters = CounterMetricFamily(f"nvshare_{name}", text, labels=["gpu"])
        for view in picture.devices:
            counters.add_metric([view.device], figure(view))
        yield counters
    clients = GaugeMetricFamily("nvshare_clients", "Clients by state.", labels=["gpu", "state"])
    policy = GaugeMetricFamily("nvshare_policy", "1: this is the device's policy.", labels=["gpu", "policy"])
    missing = GaugeMetricFamily(
        "nvshare_allocations_without_client",
        "Containers that hold a virtual device of the GPU and have no client on it.",
        labels=["gpu"],
    )
    for view in picture.devices:
        for state in ShownState:
            clients.add_metric([view.device, state.value], _count(view, state))
        for choice in Policy:
            policy.add_metric([view.device, choice.value], view.policy is choice)
        missing.add_metric([view.device], picture.allocations_without_client.get(view.device, 0))
    yield from (clients, policy, missing)


def _of_scheduler(picture: Picture) -> Iterator[Family]:
    connections = GaugeMetricFamily("nvshare_scheduler_connections", "Open connections, registered or not.")
    connections.add_metric([], picture.connections)
    drops = CounterMetricFamily(
        "nvshare_scheduler_dropped_connections", "Peers that were disconnected because of a fault.", labels=["reason"]
    )
    for fault in Fault:
        drops.add_metric([fault.value], picture.drops.get(fault, 0))
    pauses = CounterMetricFamily(
        "nvshare_scheduler_accept_pauses", "Times that connections had to wait for want of descriptors or memory."
    )
    pauses.add_metric([], picture.accept_pauses)
    yield from (connections, drops, pauses)


def _count(view: DeviceSnapshot, *states: ShownState) -> int:
    return sum(client.state in states for client in view.clients)


_GAUGES: tuple[tuple[str, str, Figure], ...] = (
    ("holders", "Clients that hold the lock.", lambda view: _count(view, ShownState.HOLDING, ShownState.UNRESPONSIVE)),
    ("waiters", "Clients that wait for the lock.", lambda view: _count(view, ShownState.WAITING)),
    (
        "unresponsive_holders",
        "Holders that did not give the lock back in time.",
        lambda view: _count(view, ShownState.UNRESPONSIVE),
    ),
    (
        "footprint_bytes",
        "Memory that clients allocated and report.",
        lambda view: sum(client.footprint_bytes or 0 for client in view.clients),
    ),
    (
        "pinned_bytes",
        "Memory of clients beyond their footprint.",
        lambda view: sum(client.pinned_bytes for client in view.clients),
    ),
    ("foreign_bytes", "Memory of processes that are no clients.", lambda view: view.foreign_bytes),
    ("total_bytes", "The device's memory; 0: not known.", lambda view: view.total_bytes),
    ("quantum_seconds", "How long a turn is while others wait.", lambda view: view.quantum_seconds),
    ("recovering", "1: a former scheduler's clients have time to come back.", lambda view: view.recovering),
)

_COUNTERS: tuple[tuple[str, str, Figure], ...] = (
    ("grants", "Times that the lock was granted.", lambda view: view.totals.grants),
    ("revokes", "Times that a holder was asked to leave.", lambda view: view.totals.revokes),
    ("overdue_releases", "Times that a holder did not leave in time.", lambda view: view.totals.unresponsive),
    ("held_seconds", "Time that clients held the lock, added up.", lambda view: view.totals.held_seconds),
    ("waited_seconds", "Time that clients waited for the lock, added up.", lambda view: view.totals.waited_seconds),
)

"""What Prometheus is told about each container on each GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from nvshare.scheduler.api.container_usage import Usage
from nvshare.scheduler.api.places import LABELS, is_one
from nvshare.scheduler.core.snapshot import ShownState, SwapSnapshot
from nvshare.scheduler.core.terms import Terms

Family = CounterMetricFamily | GaugeMetricFamily


class ContainerCollector(Collector):
    """Shows what is known at the moment of a scrape."""

    def __init__(self, containers: Callable[[], tuple[Usage, ...]]) -> None:
        """``containers`` is called in a thread."""
        self._containers = containers

    def describe(self) -> list[Family]:
        """Nothing: what a scheduler has to say is not known before it has clients."""
        return []

    def collect(self) -> Iterator[Family]:
        """Every figure of now."""
        containers = self._containers()
        there = [usage for usage in containers if usage.clients]
        for name, text, count in _COUNTERS:
            counter = CounterMetricFamily(f"nvshare_container_{name}", text, labels=LABELS)
            for usage in containers:
                counter.add_metric(usage.labels, count(usage))
            yield counter
        for name, text, figure in _GAUGES:
            gauge = GaugeMetricFamily(f"nvshare_container_{name}", text, labels=LABELS)
            for usage in there:
                gauge.add_metric(usage.labels, figure(usage))
            yield gauge
        yield _states(there)
        yield from _of_terms(there)


def _states(containers: list[Usage]) -> Family:
    clients = GaugeMetricFamily(
        "nvshare_container_clients", "Clients of the container by state.", labels=[*LABELS, "state"]
    )
    for usage in containers:
        states = [client.state for client in usage.clients]
        for state in ShownState:
            clients.add_metric([*usage.labels, state.value], states.count(state))
    return clients


def _of_terms(containers: list[Usage]) -> Iterator[Family]:
    """What was not set has no series. Processes that only count as one here have terms of their own each."""
    alike = [(usage, usage.clients[0]) for usage in containers if is_one(usage.labels)]
    for name, text, term in _TERMS:
        family = GaugeMetricFamily(f"nvshare_container_{name}", text, labels=LABELS)
        for usage, client in alike:
            if (value := term(client.terms)) is not None:
                family.add_metric(usage.labels, value)
        yield family
    kept = GaugeMetricFamily(
        "nvshare_container_memory_kept_bytes", "Of the container's memory request, what is kept.", labels=LABELS
    )
    for usage, client in alike:
        if client.terms.memory_request_bytes:
            kept.add_metric(usage.labels, client.kept_bytes)
    yield kept


def _swapping(usage: Usage) -> Iterator[SwapSnapshot]:
    return (client.swap for client in usage.clients if client.swap is not None)


_COUNTERS: tuple[tuple[str, str, Callable[[Usage], float]], ...] = (
    ("held_seconds", "Time for which clients of the container held the lock.", lambda usage: usage.done.held_seconds),
    (
        "waited_seconds",
        "Time for which clients of the container waited for the lock.",
        lambda usage: usage.done.waited_seconds,
    ),
    ("grants", "Times that the lock was granted to a client of the container.", lambda usage: usage.done.grants),
    ("swap_in_bytes", "Memory of the container that came in from host memory.", lambda usage: usage.done.came_bytes),
    ("swap_out_bytes", "Memory of the container that was copied to host memory.", lambda usage: usage.done.left_bytes),
    ("sleeps", "Times that a client of the container fell asleep.", lambda usage: usage.done.sleeps),
)

_GAUGES: tuple[tuple[str, str, Callable[[Usage], float]], ...] = (
    (
        "footprint_bytes",
        "Memory that clients of the container allocated and report.",
        lambda usage: sum(client.allocated_bytes or 0 for client in usage.clients),
    ),
    (
        "resident_bytes",
        "Memory of the container that swaps, on the device or on the way.",
        lambda usage: sum(swap.resident_bytes for swap in _swapping(usage)),
    ),
    (
        "swapped_bytes",
        "Memory of the container that swaps, in host memory or in files.",
        lambda usage: sum(swap.out_bytes for swap in _swapping(usage)),
    ),
    (
        "stored_bytes",
        "Of it, what is in files.",
        lambda usage: sum(swap.stored_bytes for swap in _swapping(usage)),
    ),
    (
        "allotted_bytes",
        "Memory of the container that swaps, which may be on the device.",
        lambda usage: sum(swap.allotted_bytes for swap in _swapping(usage)),
    ),
    (
        "pinned_bytes",
        "Memory of the container's clients beyond their footprint.",
        lambda usage: sum(client.pinned_bytes for client in usage.clients),
    ),
    (
        "longest_wait_seconds",
        "How long that client of the container waits for the lock now which waits longest; 0: none waits.",
        lambda usage: max((0.0 if client.line is None else client.line.seconds) for client in usage.clients),
    ),
)

_TERMS: tuple[tuple[str, str, Callable[[Terms], float | None]], ...] = (
    ("weight", "The container's share of the device's time against those of others.", lambda terms: terms.weight),
    (
        "compute_limit_ratio",
        "The most of the device's time that the container gets; none: no limit.",
        lambda terms: terms.compute_limit,
    ),
    (
        "memory_limit_bytes",
        "What the container may allocate on the device; none: no limit.",
        lambda terms: terms.memory_limit_bytes,
    ),
    (
        "memory_request_bytes",
        "Memory that the container asked to keep on the device; none: it asked for none.",
        lambda terms: terms.memory_request_bytes or None,
    ),
)

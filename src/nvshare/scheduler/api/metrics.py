"""What Prometheus is told about the scheduler, made from a snapshot of it at every scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from nvshare.nvml_state import NvmlState
from nvshare.scheduler.api.scheduler_snapshot import SchedulerSnapshot
from nvshare.scheduler.clients.faults import Fault
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState, SwapSnapshot
from nvshare.scheduler.sleeping.process import SleepTimes

Figure = Callable[[DeviceSnapshot], float]
Family = CounterMetricFamily | GaugeMetricFamily


class SchedulerCollector(Collector):
    """Asks for a snapshot at every scrape."""

    def __init__(self, version: str, snapshot: Callable[[], SchedulerSnapshot]) -> None:
        """``snapshot`` is called in a thread."""
        self._version = version
        self._snapshot = snapshot

    def describe(self) -> list[Family]:
        """Nothing: to register needs no snapshot."""
        return []

    def collect(self) -> Iterator[Family]:
        """Every figure of now."""
        snapshot = self._snapshot()
        info = GaugeMetricFamily("nvshare_scheduler_info", "Always 1.", labels=["version"])
        info.add_metric([self._version], 1)
        yield info
        yield from _of_devices(snapshot)
        yield from _of_who_is_there(snapshot)
        yield from _of_mixes(snapshot)
        yield from _of_scheduler(snapshot)
        yield from _of_sleep(snapshot.sleep_times)
        yield from _of_files(snapshot)
        yield from _of_packs(snapshot)


def _of_devices(snapshot: SchedulerSnapshot) -> Iterator[Family]:
    for name, text, figure in _GAUGES:
        family = GaugeMetricFamily(f"nvshare_{name}", text, labels=["gpu"])
        for device in snapshot.devices:
            family.add_metric([device.device], figure(device))
        yield family
    for name, text, figure in _COUNTERS:
        counters = CounterMetricFamily(f"nvshare_{name}", text, labels=["gpu"])
        for device in snapshot.devices:
            counters.add_metric([device.device], figure(device))
        yield counters


def _of_who_is_there(snapshot: SchedulerSnapshot) -> Iterator[Family]:
    clients = GaugeMetricFamily("nvshare_clients", "Clients by state.", labels=["gpu", "state"])
    policy = GaugeMetricFamily("nvshare_policy", "1: this is the device's policy.", labels=["gpu", "policy"])
    missing = GaugeMetricFamily(
        "nvshare_allocations_without_client",
        "Containers that hold a virtual device of the GPU and have no client on it.",
        labels=["gpu"],
    )
    twice = GaugeMetricFamily(
        "nvshare_allocations_by_others",
        "Containers to which another device plugin gave the GPU while containers hold virtual devices of it.",
        labels=["gpu"],
    )
    for device in snapshot.devices:
        for state in ShownState:
            clients.add_metric([device.device, state.value], _count(device, state))
        for choice in Policy:
            policy.add_metric([device.device, choice.value], device.policy is choice)
        missing.add_metric([device.device], snapshot.allocations_without_client.get(device.device, 0))
        twice.add_metric([device.device], snapshot.allocations_by_others.get(device.device, 0))
    yield from (clients, policy, missing, twice)


def _of_mixes(snapshot: SchedulerSnapshot) -> Iterator[Family]:
    ratio = GaugeMetricFamily(
        "nvshare_together_ratio", "What clients do together, measured by what they do in turns.", labels=["gpu"]
    )
    turns = GaugeMetricFamily(
        "nvshare_turns_are_better", "1: clients that fit take turns all the same.", labels=["gpu"]
    )
    for device in snapshot.devices:
        if device.mix is None or device.mix.measured_seconds is None:
            continue
        turns.add_metric([device.device], device.mix.turns)
        if device.mix.ratio is not None:
            ratio.add_metric([device.device], device.mix.ratio)
    yield from (ratio, turns)


def _of_scheduler(snapshot: SchedulerSnapshot) -> Iterator[Family]:
    connections = GaugeMetricFamily("nvshare_scheduler_connections", "Open connections, registered or not.")
    connections.add_metric([], snapshot.connections)
    limit = GaugeMetricFamily("nvshare_scheduler_connections_limit", "How many connections there can be.")
    limit.add_metric([], snapshot.connections_limit)
    drops = CounterMetricFamily(
        "nvshare_scheduler_dropped_connections", "Peers that were disconnected because of a fault.", labels=["reason"]
    )
    for fault in Fault:
        drops.add_metric([fault.value], snapshot.drops.get(fault, 0))
    pauses = CounterMetricFamily(
        "nvshare_scheduler_accept_pauses",
        "Times that new connections had to wait because there were no descriptors or no memory.",
    )
    pauses.add_metric([], snapshot.accept_pauses)
    dropped_lines = CounterMetricFamily("nvshare_scheduler_log_lines_dropped", "Log lines that stderr did not take.")
    dropped_lines.add_metric([], snapshot.log_lines_dropped)
    budget = GaugeMetricFamily("nvshare_host_memory_bytes", "Host memory that all clients together may swap into.")
    budget.add_metric([], snapshot.host_memory.budget_bytes)
    used = GaugeMetricFamily("nvshare_host_memory_used_bytes", "Of it, what clients have.")
    used.add_metric([], snapshot.host_memory.used_bytes)
    nvml = GaugeMetricFamily("nvshare_scheduler_nvml_state", "1: so NVML is.", labels=["state"])
    for state in NvmlState:
        nvml.add_metric([state.value], state is snapshot.nvml)
    yield from (connections, limit, drops, pauses, dropped_lines, budget, used, nvml)


def _of_sleep(times: SleepTimes) -> Iterator[Family]:
    for name, text, figure in (
        ("sleeps", "Processes that the driver put to sleep.", times.sleeps),
        ("sleep_seconds", "Time that the driver took for that.", times.sleep_seconds),
        ("wakes", "Processes that the driver woke.", times.wakes),
        ("wake_seconds", "Time that the driver took for that.", times.wake_seconds),
        (
            "lost_processes",
            "Processes that the driver did not wake, or whose data could not be read from a file: their calls fail.",
            times.lost,
        ),
    ):
        yield _counter(name, text, figure)


def _of_files(snapshot: SchedulerSnapshot) -> Iterator[Family]:
    size = GaugeMetricFamily("nvshare_swap_file_bytes", "What files may have of the data of programs that sleep.")
    size.add_metric([], snapshot.host_memory.file_budget_bytes)
    used = GaugeMetricFamily("nvshare_swap_file_used_bytes", "Of it, what is used.")
    used.add_metric([], snapshot.host_memory.file_used_bytes)
    yield from (size, used)
    times = snapshot.file_times
    for name, text, figure in (
        ("written_bytes", "Data of programs that went to files when they slept.", times.written_bytes),
        ("write_seconds", "Time that this took, added up.", times.write_seconds),
        ("read_bytes", "Data of programs that came back from files.", times.read_bytes),
        ("read_seconds", "Time that this took, host memory for it included, added up.", times.read_seconds),
    ):
        yield _counter(f"swap_file_{name}", text, figure)


def _of_packs(snapshot: SchedulerSnapshot) -> Iterator[Family]:
    shared = GaugeMetricFamily(
        "nvshare_shared_blocks_bytes",
        "Data of programs that sleep which takes no host memory of its own, since others have it equal.",
    )
    shared.add_metric([], snapshot.host_memory.shared_bytes)
    packs = GaugeMetricFamily("nvshare_packs_bytes", "Host memory that has such data, once.")
    packs.add_metric([], snapshot.host_memory.packs_bytes)
    yield from (shared, packs)


def _counter(name: str, text: str, figure: float) -> CounterMetricFamily:
    counter = CounterMetricFamily(f"nvshare_{name}", text)
    counter.add_metric([], figure)
    return counter


def _count(device: DeviceSnapshot, *states: ShownState) -> int:
    return sum(client.state in states for client in device.clients)


def _one_of_each(device: DeviceSnapshot) -> Iterable[ClientSnapshot]:
    """One client of each container."""
    return {client.container or client.client: client for client in device.clients}.values()


def _swapping(device: DeviceSnapshot) -> Iterator[SwapSnapshot]:
    return (client.swap for client in device.clients if client.swap is not None)


_GAUGES: tuple[tuple[str, str, Figure], ...] = (
    (
        "holders",
        "Clients that hold the lock.",
        lambda device: (
            _count(device, ShownState.HOLDING, ShownState.LEAVING, ShownState.UNRESPONSIVE)
            - sum(client.keeps_room for client in device.clients)
        ),
    ),
    ("waiters", "Clients that wait for the lock.", lambda device: _count(device, ShownState.WAITING)),
    (
        "unresponsive_holders",
        "Clients that did not give the lock, or their memory, back in time.",
        lambda device: _count(device, ShownState.UNRESPONSIVE),
    ),
    (
        "sleeping_clients",
        "Clients that are asleep: nothing of them is on the device.",
        lambda device: _count(device, ShownState.ASLEEP),
    ),
    (
        "footprint_bytes",
        "Memory that clients allocated and report.",
        lambda device: sum(client.allocated_bytes or 0 for client in device.clients),
    ),
    (
        "resident_bytes",
        "Memory that swaps, on the device or on the way.",
        lambda device: sum(swap.resident_bytes for swap in _swapping(device)),
    ),
    (
        "swapped_bytes",
        "Memory that swaps, in host memory or in files.",
        lambda device: sum(swap.out_bytes for swap in _swapping(device)),
    ),
    (
        "stored_bytes",
        "Of it, what is in files.",
        lambda device: sum(swap.stored_bytes for swap in _swapping(device)),
    ),
    (
        "allotted_bytes",
        "Memory that swaps, which may be on the device.",
        lambda device: sum(swap.allotted_bytes for swap in _swapping(device)),
    ),
    (
        "pinned_bytes",
        "Memory of clients beyond their footprint.",
        lambda device: sum(client.pinned_bytes for client in device.clients),
    ),
    ("foreign_bytes", "Memory of processes that are no clients.", lambda device: device.foreign_bytes),
    (
        "memory_limited_clients",
        "Clients of containers with a memory limit.",
        lambda device: sum(client.terms.memory_limit_bytes is not None for client in device.clients),
    ),
    (
        "memory_requested_bytes",
        "Memory that containers asked to keep on the device.",
        lambda device: sum(client.terms.kept_bytes for client in _one_of_each(device)),
    ),
    (
        "memory_kept_bytes",
        "Of it, what is kept.",
        lambda device: sum(client.kept_bytes for client in _one_of_each(device)),
    ),
    ("reserve_bytes", "What stays free for what the driver takes unasked.", lambda device: device.reserve_bytes),
    ("total_bytes", "The device's memory; 0: not known.", lambda device: device.total_bytes),
    ("quantum_seconds", "How long a turn is while others wait.", lambda device: device.quantum_seconds),
    ("recovering", "1: holders whose connection was lost are neither back nor dead.", lambda device: device.recovering),
)

_COUNTERS: tuple[tuple[str, str, Figure], ...] = (
    ("grants", "Times that the lock was granted.", lambda device: device.totals.grants),
    ("revokes", "Times that a holder was asked to leave.", lambda device: device.totals.revokes),
    ("overdue_releases", "Times that a client did not leave in time.", lambda device: device.totals.unresponsive),
    ("held_seconds", "Time that clients held the lock, added up.", lambda device: device.totals.held_seconds),
    ("waited_seconds", "Time that clients waited for the lock, added up.", lambda device: device.totals.waited_seconds),
    ("swap_in_bytes", "Memory that came in from host memory.", lambda device: device.traffic.in_bytes),
    ("swap_out_bytes", "Memory that was copied to host memory.", lambda device: device.traffic.out_bytes),
    (
        "swap_spared_bytes",
        "Memory that left and was not copied, because host memory had it already.",
        lambda device: device.traffic.spared_bytes,
    ),
    ("swap_in_seconds", "Time in which memory came in.", lambda device: device.traffic.in_seconds),
    ("swap_out_seconds", "Time in which memory left.", lambda device: device.traffic.out_seconds),
    (
        "prefetch_hits",
        "Hand-overs to a client whose memory was on the device before the holder left.",
        lambda device: device.traffic.prefetched,
    ),
    (
        "prefetch_misses",
        "Hand-overs to a client whose memory had to come in after the holder left.",
        lambda device: device.traffic.stalls - device.traffic.prefetched,
    ),
    (
        "refused_growths",
        "Allocations that were refused because the memory could never be on the device, or had no room to swap into.",
        lambda device: device.traffic.refused,
    ),
)

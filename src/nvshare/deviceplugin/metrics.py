"""The plugin's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from nvshare.deviceplugin.devices import Snapshot
from nvshare.nvml_state import NvmlState

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.25, 1.0, 5.0)
"""In seconds. Devices are allocated in the first of them, from memory; claims are prepared in those around 0.02."""


class _LogLines(Collector):
    def __init__(self, dropped: Callable[[], int]) -> None:
        self._dropped = dropped

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(
            "nvshare_plugin_log_lines_dropped", "Log lines that stderr did not take.", value=self._dropped()
        )


class Metrics:
    """The plugin's metrics in a registry of their own."""

    def __init__(self, log_lines_dropped: Callable[[], int]) -> None:
        """``log_lines_dropped``: how many lines of the log were not written."""
        self.registry = CollectorRegistry()
        self.registry.register(_LogLines(log_lines_dropped))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._devices = Gauge(
            "nvshare_plugin_virtual_devices",
            "Virtual devices that a GPU has; where GPUs are claimed: shares.",
            ["gpu"],
            registry=self.registry,
        )
        self._withheld = Gauge(
            "nvshare_plugin_withheld_devices",
            "Virtual devices that are Unhealthy only because there is no memory for what may be started on them.",
            ["gpu"],
            registry=self.registry,
        )
        self._healthy = Gauge(
            "nvshare_plugin_gpu_healthy", "1: nothing is wrong with the GPU.", ["gpu"], registry=self.registry
        )
        self._problem = Gauge(
            "nvshare_plugin_problem",
            "1: something is wrong with this: library, cdi, scheduler, gpu, nvml, kubelet, configuration.",
            ["kind"],
            registry=self.registry,
        )
        self._configuration = Gauge(
            "nvshare_plugin_configuration",
            "1: the configuration of this name is in effect, where the node's label chooses.",
            ["name"],
            registry=self.registry,
        )
        self._configured: str | None = None
        self._nvml = Gauge("nvshare_plugin_nvml_state", "1: so NVML is.", ["state"], registry=self.registry)
        self.registrations = Counter(
            "nvshare_plugin_registrations", "Registrations with kubelet.", ["result"], registry=self.registry
        )
        self.streams = Gauge(
            "nvshare_plugin_list_and_watch_streams", "Streams that kubelet holds open.", registry=self.registry
        )
        self.xids = Counter(
            "nvshare_plugin_xid_events", "XID errors that the driver reported.", ["xid"], registry=self.registry
        )
        self.slice_writes = Counter(
            "nvshare_plugin_slice_writes",
            "Writes of the node's ResourceSlice: created, updated, deleted, conflict, error.",
            ["result"],
            registry=self.registry,
        )
        self._claimable = Gauge(
            "nvshare_plugin_claimable_bytes",
            "What claims may have of a GPU's memory, all of them together.",
            ["gpu"],
            registry=self.registry,
        )
        self._claimable_shares = Gauge(
            "nvshare_plugin_claimable_shares",
            "What claims may have of a GPU's shares, all of them together.",
            ["gpu"],
            registry=self.registry,
        )
        self.claims = Gauge(
            "nvshare_plugin_claims_prepared",
            "ResourceClaims that are prepared on this node.",
            registry=self.registry,
        )
        self.requests = Histogram(
            "nvshare_plugin_request_seconds",
            "Time to answer kubelet.",
            ["method"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.refusals = Counter(
            "nvshare_plugin_refused_requests", "Requests answered with an error.", ["method"], registry=self.registry
        )

    def configuration(self, name: str, problem: str | None) -> None:
        """Which configuration is in effect, and why the one that is chosen is not."""
        if name != self._configured:
            self._configuration.clear()
            self._configured = name
        self._configuration.labels(name).set(1)
        self.problem("configuration", problem is not None)

    def show(self, snapshot: Snapshot) -> None:
        """Takes over what is offered now."""
        for offer in snapshot.offers:
            self._devices.labels(offer.uuid).set(offer.virtual_devices)
            self._withheld.labels(offer.uuid).set(len(offer.withheld))
            self._healthy.labels(offer.uuid).set(offer.problem is None)

    def claimable(self, gpu: str, memory_bytes: int, shares: int) -> None:
        """What claims may have of a GPU."""
        self._claimable.labels(gpu).set(memory_bytes)
        self._claimable_shares.labels(gpu).set(shares)

    def nvml(self, now: NvmlState) -> None:
        """How NVML is now."""
        for state in NvmlState:
            self._nvml.labels(state.value).set(state is now)
        self.problem("nvml", now.is_broken)

    def problem(self, kind: str, present: bool) -> None:
        """Whether there is a problem of this kind now."""
        self._problem.labels(kind).set(present)

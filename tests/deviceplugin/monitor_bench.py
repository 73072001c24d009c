"""A monitor with everything around it as a test sets it."""

from __future__ import annotations

from collections.abc import Callable

from structlog.testing import CapturingLogger

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.devices import Gpu, Offer
from nvshare.deviceplugin.gpus.device_nodes import Nodes, no_nodes
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.gpus.numa import no_numa_node
from nvshare.deviceplugin.host.problems import HostProblems
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.monitor import Monitor
from nvshare.deviceplugin.servable import Servable
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.nvml_state import InitErrors, NvmlState


class Clock:
    """The time that the monitor sees."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Bench:
    """A monitor with everything around it."""

    def __init__(
        self,
        clock: Clock,
        configuration: Configuration | None = None,
        selection: Selection | None = None,
        init_errors: InitErrors | None = None,
        find_nodes: Callable[[Gpu], Nodes] = no_nodes,
        find_numa_node: Callable[[Gpu], int | None] = no_numa_node,
    ) -> None:
        self.clock = clock
        self.inventory = Inventory()
        self.metrics = Metrics(int)
        self.log = CapturingLogger()
        self.host = HostProblems()
        self.status: admin_pb2.Status | None = None
        self.monitor = Monitor(
            configuration or Configuration(),
            selection or Selection(),
            lambda: self.host,
            self.inventory,
            self.metrics,
            self.log,
            init_errors or InitErrors(None, on_bus=lambda: False),
            find_nodes,
            find_numa_node,
            Servable(lambda: self.status, clock.monotonic),
        )

    @property
    def offers(self) -> tuple[Offer, ...]:
        return self.inventory.snapshot.offers

    @property
    def problems(self) -> list[str | None]:
        return [offer.problem for offer in self.offers]

    def lines(self, words: str) -> int:
        return sum(words in f"{call.args} {call.kwargs}" for call in self.log.calls)

    @property
    def nvml(self) -> list[str]:
        """The states that the metric shows."""
        return [state.value for state in NvmlState if self.metric("nvml_state", state=state.value)]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"nvshare_plugin_{name}", labels)

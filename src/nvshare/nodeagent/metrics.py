"""The agent's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from nvshare.nodeagent.readiness import Reason, Verdict


@dataclass(frozen=True, slots=True)
class Figures:
    """What the agent knows now."""

    verdict: Verdict | None
    """None: nothing was said of the node yet."""
    api_answers: bool
    scheduler_answers: bool
    pods: int
    annotated_containers: int
    invalid_annotations: int
    log_lines_dropped: int


class _Now(Collector):
    def __init__(self, take: Callable[[], Figures]) -> None:
        self._take = take

    def collect(self) -> Iterator[Metric]:
        now = self._take()
        if now.verdict is not None:
            yield GaugeMetricFamily(
                "nvshare_node_agent_node_ready",
                "1: the node's condition nvshare.com/Ready is True; 0: it is not.",
                value=float(now.verdict.ready),
            )
            reasons = GaugeMetricFamily(
                "nvshare_node_agent_node_reason", "1: the reason of the node's condition.", labels=["reason"]
            )
            for reason in Reason:
                reasons.add_metric([reason.value], float(reason is now.verdict.reason))
            yield reasons
        for name, text, value in (
            ("api_up", "1: the Kubernetes API answered the last question.", now.api_answers),
            ("scheduler_up", "1: the scheduler took the annotations when it was told last.", now.scheduler_answers),
            ("pods", "Pods of the node.", now.pods),
            ("annotated_containers", "Containers of which annotations say something.", now.annotated_containers),
            ("invalid_annotations", "Annotations that are wrong now.", now.invalid_annotations),
        ):
            yield GaugeMetricFamily(f"nvshare_node_agent_{name}", text, value=float(value))
        yield CounterMetricFamily(
            "nvshare_node_agent_log_lines_dropped", "Log lines that stderr did not take.", value=now.log_lines_dropped
        )


class Metrics:
    """The agent's metrics in a registry of their own."""

    def __init__(self, take: Callable[[], Figures]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Now(take))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._events = Counter(
            "nvshare_node_agent_events", "Events about wrong annotations.", ["result"], registry=self.registry
        )
        self._writes = Counter(
            "nvshare_node_agent_node_writes", "Writes of the node's condition and label.", registry=self.registry
        )

    def event(self, result: str) -> None:
        """An event was told, or refused."""
        self._events.labels(result).inc()

    def written(self) -> None:
        """The node's condition was written."""
        self._writes.inc()

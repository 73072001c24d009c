"""Decides what is offered, from what NVML, the environment and the node say, and logs every change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from nvshare.deviceplugin.configuration import Configuration
from nvshare.deviceplugin.device_nodes import Nodes, no_nodes
from nvshare.deviceplugin.devices import Gpu, Offer, Snapshot
from nvshare.deviceplugin.discovery import Selection, discover
from nvshare.deviceplugin.health import HealthTracker
from nvshare.deviceplugin.host import HostProblems
from nvshare.deviceplugin.inventory import Inventory
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.nvml_thread import (
    SILENCE_SECONDS,
    NvmlAbsent,
    NvmlEvent,
    Probed,
    Scanned,
    XidEventsMissing,
    XidSeen,
)
from nvshare.log import Log


class Monitor:
    """Decides what is offered. Lives in the event loop's thread; ``handle`` and ``check_host`` are its only inputs.

    A GPU that was offered once stays offered, unhealthy, when NVML no longer shows it: its pods still run, and
    kubelet must not give its virtual devices to others.
    """

    def __init__(
        self,
        configuration: Configuration,
        selection: Selection,
        inspect_host: Callable[[], HostProblems],
        inventory: Inventory,
        metrics: Metrics,
        log: Log,
        find_nodes: Callable[[Gpu], Nodes] = no_nodes,
    ) -> None:
        self._configuration = configuration
        self._selection = selection
        self._inspect_host = inspect_host
        self._find_nodes = find_nodes
        self._inventory = inventory
        self._metrics = metrics
        self._log = log
        self._health = HealthTracker(configuration.ignored_xids, configuration.recovery_seconds)
        self._gpus: dict[str, Gpu] = {}
        self._gone: dict[str, str] = {}
        self._nvml_seen = False
        self._host = HostProblems()
        self._scheduler_seen_at = time.monotonic()
        self._nvml_event_at: float | None = None
        self._logged: dict[str, str | None] = {}

    def handle(self, event: NvmlEvent) -> None:
        """Takes note of an event of the NVML thread."""
        now = time.monotonic()
        waits = isinstance(event, NvmlAbsent) or event == Scanned(())
        self._nvml_event_at = None if waits else now
        match event:
            case NvmlAbsent(reason):
                self._scanned(None, f"NVML is not available: {reason}")
            case Scanned(gpus):
                self._scanned(gpus, None)
            case Probed(results):
                self._health.probed(results, now)
            case XidSeen(xid):
                self._metrics.xids.labels(str(xid.number)).inc()
                critical = self._health.xid(xid, self._gpus.values(), now)
                self._log.warning("XID error", xid=xid.number, gpu=xid.uuid, application_fault=not critical)
            case XidEventsMissing(reason):
                self._log_topic("events", f"NVML reports no error events ({reason}): health is known by probes only")
            case _:
                assert_never(event)
        self._publish()

    def check_host(self) -> None:
        """Looks at the node; to be called about once a second."""
        now = time.monotonic()
        self._host = self._inspect_host()
        if self._host.scheduler is None:
            self._scheduler_seen_at = now
        self._metrics.problem("library", self._host.library is not None)
        self._metrics.problem("scheduler", self._host.scheduler is not None)
        self._log_topic("library", self._host.library, good="the library is on the host")
        self._log_topic("scheduler", self._host.scheduler, good="the scheduler's socket is there")
        self._publish()

    def problems(self) -> list[str]:
        """What the node lacks. A node without GPUs lacks nothing: there is nothing to offer."""
        if not self._gpus:
            return []
        return [problem for problem in (self._host.library, self._host.scheduler) if problem is not None]

    def sick_gpus(self) -> list[str]:
        """Which GPUs are unhealthy, and why."""
        # A copy: probes are answered in another thread.
        return [f"{uuid}: {problem}" for uuid in tuple(self._gpus) if (problem := self._gpu_problem(uuid)) is not None]

    def _scanned(self, nvml: tuple[Gpu, ...] | None, absent: str | None) -> None:
        """``absent`` says why there is no NVML. If there never was one, the GPUs that the environment names count."""
        self._nvml_seen = self._nvml_seen or nvml is not None
        discovery = discover(self._selection, () if nvml is None and self._nvml_seen else nvml)
        for gpu in discovery.gpus:
            if gpu.uuid not in self._gpus:
                count = self._virtual_devices(gpu.uuid)
                self._log.info("GPU found", gpu=gpu.uuid, index=gpu.index, virtual_devices=count)
            self._gpus[gpu.uuid] = gpu
        present = {gpu.uuid for gpu in discovery.gpus}
        self._gone = {uuid: absent or "NVML does not show it any more" for uuid in self._gpus if uuid not in present}
        if nvml is not None or not self._nvml_seen:
            self._log_topic("selection", "; ".join(discovery.warnings) or None)
        if self._gpus:
            self._log_topic("nvml", absent, good="NVML is available")
        else:
            self._log_topic("gpus", _nothing_to_offer(absent or "NVML shows none"))

    def _publish(self) -> None:
        offers = tuple(
            Offer(uuid, self._virtual_devices(uuid), self._problem(uuid), self._find_nodes(gpu).paths)
            for uuid, gpu in self._gpus.items()
        )
        before = {offer.uuid: offer.problem for offer in self._inventory.snapshot.offers}
        if self._inventory.publish(Snapshot(offers)):
            self._metrics.show(self._inventory.snapshot)
            self._metrics.problem("gpu", bool(self.sick_gpus()))
            self._log_changes(before, offers)

    def _log_changes(self, before: Mapping[str, str | None], offers: Iterable[Offer]) -> None:
        """Logs which GPUs' health changed; one line for all GPUs that have the same reason."""
        worse: dict[str, list[str]] = {}
        for offer in offers:
            was = before.get(offer.uuid)
            if offer.problem is not None and offer.problem != was:
                worse.setdefault(offer.problem, []).append(offer.uuid)
            elif offer.problem is None and was is not None:
                self._log.info("healthy again", gpu=offer.uuid)
        for reason, uuids in worse.items():
            self._log.warning("unhealthy", gpus=uuids, reason=reason)

    def _problem(self, uuid: str) -> str | None:
        """Why the GPU's virtual devices are not to be given out; None when they are."""
        if self._host.library is not None:
            return self._host.library
        # A container that comes now waits for the scheduler anyway: a short absence (its restart) takes nothing away.
        absent = time.monotonic() - self._scheduler_seen_at
        if self._host.scheduler is not None and absent >= self._configuration.scheduler_grace_seconds:
            return self._host.scheduler
        return self._gpu_problem(uuid)

    def _gpu_problem(self, uuid: str) -> str | None:
        event_at = self._nvml_event_at
        if event_at is not None and time.monotonic() - event_at > SILENCE_SECONDS:
            return "the driver does not answer NVML"
        return self._gone.get(uuid) or self._health.problem(uuid) or self._find_nodes(self._gpus[uuid]).problem

    def _virtual_devices(self, uuid: str) -> int:
        return self._configuration.virtual_devices_per_gpu.get(uuid, self._configuration.virtual_devices)

    def _log_topic(self, topic: str, bad: str | None, good: str | None = None) -> None:
        """Logs a topic's state when it changed; no line where nothing was ever wrong."""
        was = self._logged.get(topic)
        self._logged[topic] = bad
        if bad is not None and bad != was:
            self._log.warning(bad)
        elif bad is None and was is not None and good is not None:
            self._log.info(good)


def _nothing_to_offer(why: str) -> str:
    remedy = "if this node has GPUs, this container needs the NVIDIA container runtime (runtimeClassName: nvidia)"
    return f"no GPU to offer on this node ({why}): waiting for one; {remedy}"

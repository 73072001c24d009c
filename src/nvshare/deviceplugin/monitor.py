"""Decides what is offered, from what NVML, the environment and the node say, and logs every change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from nvshare.deviceplugin.devices import Gpu, Offer, Snapshot
from nvshare.deviceplugin.gpus.device_nodes import Nodes, no_nodes
from nvshare.deviceplugin.gpus.discovery import Selection, discover, resource_of
from nvshare.deviceplugin.gpus.health import HealthTracker
from nvshare.deviceplugin.gpus.numa import no_numa_node
from nvshare.deviceplugin.gpus.nvml_thread import (
    NvmlAbsent,
    NvmlAsked,
    NvmlEvent,
    Probed,
    Scanned,
    XidEventsMissing,
    XidSeen,
)
from nvshare.deviceplugin.host.problems import HostProblems
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.servable import Servable
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.log import Log
from nvshare.nvml_state import LOST, SILENCE, SILENCE_SECONDS, InitErrors, NvmlState, advice, lost


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
        init_errors: InitErrors,
        find_nodes: Callable[[Gpu], Nodes] = no_nodes,
        find_numa_node: Callable[[Gpu], int | None] = no_numa_node,
        servable: Servable | None = None,
    ) -> None:
        """``servable``: None where all virtual devices are offered, whatever memory there is."""
        self._configuration = configuration
        self._selection = selection
        self._inspect_host = inspect_host
        self._find_nodes = find_nodes
        self._find_numa_node = find_numa_node
        self._servable = servable
        self._numa_nodes: dict[str, int | None] = {}
        self._inventory = inventory
        self._metrics = metrics
        self._log = log
        self._health = HealthTracker(configuration.ignored_xids, configuration.recovery_seconds)
        self._gpus: dict[str, Gpu] = {}
        self._gone: dict[str, str] = {}
        self._failed: Mapping[str, str] = {}
        """What NVML says of GPUs that it does not give, by index."""
        self._nvml_seen = False
        self._nvml = NvmlState.UNKNOWN
        self._absent: str | None = None
        """Why there is no NVML."""
        self._init_errors = init_errors
        self._host = HostProblems()
        self._scheduler_seen_at = time.monotonic()
        self._nvml_event_at: float | None = None
        self.has_looked = False
        """Whether NVML has answered, whatever it said."""
        self._logged: dict[str, str | None] = {}

    @property
    def gpus(self) -> Mapping[str, Gpu]:
        """Those that are offered, by UUID."""
        return self._gpus

    def handle(self, event: NvmlEvent) -> None:
        """Takes note of an event of the NVML thread."""
        now = time.monotonic()
        waits = isinstance(event, NvmlAbsent) or event == Scanned(())
        self._nvml_event_at = None if waits else now
        match event:
            case NvmlAsked():
                return
            case NvmlAbsent(reason, state):
                self._absent = f"NVML is not available: {reason.rstrip('.')}"
                self._nvml = self._init_errors.heard(state, now)
                self._scanned(None, {})
            case Scanned(gpus, failed):
                self._absent = None
                self._nvml = self._init_errors.heard(NvmlState.OK if gpus or failed else NvmlState.NO_GPU, now)
                self._scanned(gpus, failed)
            case Probed(results):
                self._health.probed(results, now)
            case XidSeen(xid):
                self._metrics.xids.labels(str(xid.number)).inc()
                critical = self._health.xid(xid, self._gpus.values(), now)
                if xid.uuid is None:
                    self._log.warning("XID error of a GPU that NVML does not name: each is probed now", xid=xid.number)
                else:
                    self._log.warning("XID error", xid=xid.number, gpu=xid.uuid, application_fault=not critical)
            case XidEventsMissing(reason):
                self._log_topic("events", f"NVML reports no error events ({reason}): health is known by probes only")
            case _:
                assert_never(event)
        self.has_looked = True
        self._publish()

    def check_host(self) -> None:
        """Looks at the node; to be called about once a second."""
        now = time.monotonic()
        self._host = self._inspect_host()
        if self._host.scheduler is None:
            self._scheduler_seen_at = now
        self._metrics.problem("library", self._host.library is not None)
        self._metrics.problem("cdi", self._host.cdi is not None)
        self._metrics.problem("scheduler", self._host.scheduler is not None)
        self._log_topic("library", self._host.library, good="the library is on the host")
        self._log_topic("cdi", self._host.cdi, good="the CDI devices are described")
        self._log_topic("scheduler", self._host.scheduler, good="the scheduler's socket is there")
        self._show_nvml()
        self._publish()

    def problems(self) -> list[str]:
        """What the node lacks. A node without GPUs lacks nothing: there is nothing to offer.

        Nor does one whose scheduler is away for a moment: in a rollout of both a DaemonSet deletes a plugin that is not
        ready before the next one can follow it.
        """
        if not self.has_looked:
            # In a rollout the former instance ends when this one is ready: not before this one can follow it.
            return ["NVML has not answered yet"]
        if not self._gpus:
            return []
        problems = (self._host.library, self._host.cdi, self._no_scheduler())
        return [problem for problem in problems if problem is not None]

    def notes(self) -> list[str]:
        """Whether the scheduler is away for a moment, which GPUs are unhealthy, and what is wrong with NVML."""
        nvml = [self._nvml_words() or ""] if self._nvml_state().is_broken else []
        away = self._host.scheduler if self._gpus and self._no_scheduler() is None else None
        return ([] if away is None else [away]) + self._sick_gpus() + nvml

    def gave_up(self) -> str | None:
        """Why the plugin had better be started anew; None: it had not. Never once there was something to offer."""
        if self._gpus or not self._init_errors.over(time.monotonic()):
            return None
        return (
            f"{self._absent} for {self._init_errors.seconds:g} s: this program ends (fail_on_init_error), so that its "
            "container is made anew and gets the driver that the node has then; else delete this pod; "
            f"{advice(self._nvml)}"
        )

    def _sick_gpus(self) -> list[str]:
        # A copy: probes are answered in another thread.
        known = [f"{uuid}: {problem}" for uuid in tuple(self._gpus) if (problem := self._gpu_problem(uuid)) is not None]
        unknown = self._failed.keys() - {failed for gpu in self._gpus.values() for failed in _indices(gpu)}
        return known + [f"GPU {index}: {lost(self._failed[index])}" for index in sorted(unknown)]

    def _nvml_state(self) -> NvmlState:
        event_at = self._nvml_event_at
        silent = event_at is not None and time.monotonic() - event_at > SILENCE_SECONDS
        return NvmlState.SILENT if silent else self._nvml

    def _show_nvml(self) -> None:
        self._metrics.nvml(self._nvml_state())
        self._log_topic("nvml", self._nvml_words(), good="NVML is available")

    def _nvml_words(self) -> str | None:
        """What is wrong with NVML and what to do; None: nothing, or nothing known."""
        state = self._nvml_state()
        if state in (NvmlState.UNKNOWN, NvmlState.OK):
            return None
        if state is NvmlState.SILENT:
            return f"{SILENCE}: {advice(state)}"
        what = self._absent or "NVML shows none"
        if self._gpus:
            return f"{what}: {advice(state)}"
        words = f"no GPU to offer on this node ({what}): waiting for one; {advice(state)}"
        if self._init_errors.ends:
            words += f"; after {self._init_errors.seconds:g} s this program ends, and its container is made anew"
        return words

    def _scanned(self, nvml: tuple[Gpu, ...] | None, failed: Mapping[str, str]) -> None:
        """What NVML shows; None: there is none. If there never was one, the GPUs that the environment names count."""
        self._nvml_seen = self._nvml_seen or nvml is not None
        discovery = discover(self._selection, () if nvml is None and self._nvml_seen else nvml)
        for gpu in discovery.gpus:
            if gpu.uuid not in self._gpus:
                count = self._virtual_devices(gpu.uuid)
                self._log.info(
                    "GPU found", gpu=gpu.uuid, index=gpu.index, virtual_devices=count, resource=self._resource_of(gpu)
                )
            self._gpus[gpu.uuid] = gpu
            self._numa_nodes[gpu.uuid] = self._find_numa_node(gpu)
        present = {gpu.uuid for gpu in discovery.gpus}
        if nvml is not None:
            self._log_failures(failed)
        self._gone = {gpu.uuid: self._why_gone(gpu) for gpu in self._gpus.values() if gpu.uuid not in present}
        if nvml is not None or not self._nvml_seen:
            self._log_topic("selection", "; ".join(discovery.warnings) or None)
        self._show_nvml()

    def _log_failures(self, failed: Mapping[str, str]) -> None:
        """One line for each GPU that NVML does not give any more, or again."""
        for index in sorted({*self._failed, *failed}):
            names = ", ".join(gpu.uuid for gpu in self._gpus.values() if index in _indices(gpu))
            gpu = f"GPU {index}" + (f" ({names})" if names else "")
            bad = f"{gpu} is lost, NVML says: {failed[index]}; others go on: {LOST}" if index in failed else None
            self._log_topic(f"gpu {index}", bad, good=f"NVML gives {gpu} again")
        self._failed = failed

    def _why_gone(self, gpu: Gpu) -> str:
        error = next((self._failed[index] for index in _indices(gpu) if index in self._failed), None)
        return lost(error) if error else self._absent or "NVML does not show it any more"

    def _publish(self) -> None:
        self._metrics.problem("gpu", bool(self._sick_gpus()))
        offers = tuple(
            Offer(
                uuid,
                self._virtual_devices(uuid),
                self._problem(uuid),
                self._find_nodes(gpu).paths,
                self._numa_nodes[uuid],
                self._resource_of(gpu),
                self._withheld(uuid),
            )
            for uuid, gpu in self._gpus.items()
        )
        before = {offer.uuid: offer for offer in self._inventory.snapshot.offers}
        if self._inventory.publish(Snapshot(offers)):
            self._metrics.show(self._inventory.snapshot)
            self._log_changes(before, offers)

    def _log_changes(self, before: Mapping[str, Offer], offers: Iterable[Offer]) -> None:
        """Logs which GPUs' health changed, one line for all GPUs that have the same reason, and what is withheld."""
        worse: dict[str, list[str]] = {}
        for offer in offers:
            former = before.get(offer.uuid)
            was = None if former is None else former.problem
            if offer.problem is not None and offer.problem != was:
                worse.setdefault(offer.problem, []).append(offer.uuid)
            elif offer.problem is None and was is not None:
                self._log.info("healthy again", gpu=offer.uuid)
            if len(offer.withheld) != (0 if former is None else len(former.withheld)):
                self._log_withheld(offer)
        for reason, uuids in worse.items():
            self._log.warning("unhealthy", gpus=uuids, reason=reason)

    def _log_withheld(self, offer: Offer) -> None:
        room = None if self._servable is None else self._servable.room(offer.uuid)
        self._log.info(
            "as many virtual devices are offered as there is memory for",
            gpu=offer.uuid,
            offered=offer.virtual_devices - len(offer.withheld),
            of=offer.virtual_devices,
            memory="not known" if room is None else str(room),
        )

    def _withheld(self, uuid: str) -> frozenset[int]:
        if self._servable is None:
            return frozenset()
        return self._servable.withheld(uuid, self._virtual_devices(uuid))

    def _problem(self, uuid: str) -> str | None:
        """Why the GPU's virtual devices are not to be given out; None when they are."""
        if self._host.library is not None:
            return self._host.library
        if self._host.cdi is not None:
            return self._host.cdi
        if self._host.described is not None and uuid not in self._host.described:
            return "container runtimes do not know its CDI device yet"
        return self._no_scheduler() or self._gpu_problem(uuid)

    def _no_scheduler(self) -> str | None:
        """Why there is none for so long that it counts; None: there is.

        A container that comes now waits for it anyway: a short absence (its restart) takes nothing away.
        """
        absent = time.monotonic() - self._scheduler_seen_at
        return self._host.scheduler if absent >= self._configuration.scheduler_grace_seconds else None

    def _gpu_problem(self, uuid: str) -> str | None:
        if self._nvml_state() is NvmlState.SILENT:
            return SILENCE
        return self._gone.get(uuid) or self._health.problem(uuid) or self._find_nodes(self._gpus[uuid]).problem

    def _virtual_devices(self, uuid: str) -> int:
        return self._configuration.virtual_devices_per_gpu.get(uuid, self._configuration.virtual_devices)

    def _resource_of(self, gpu: Gpu) -> str:
        return resource_of(gpu, self._configuration.resource_name, self._configuration.mig_strategy)

    def _log_topic(self, topic: str, bad: str | None, good: str | None = None) -> None:
        """Logs a topic's state when it changed; no line where nothing was ever wrong."""
        was = self._logged.get(topic)
        self._logged[topic] = bad
        if bad is not None and bad != was:
            self._log.warning(bad)
        elif bad is None and was is not None and good is not None:
            self._log.info(good)


def _indices(gpu: Gpu) -> tuple[str, str]:
    """By which NVML's failure concerns it: its own, and for a MIG device that of its GPU."""
    return gpu.index, gpu.index.partition(":")[0]

"""Which GPUs are healthy, by NVML's XID events and by probes. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nvshare.deviceplugin.devices import Gpu

# XIDs by which the driver reports a fault of a program, not of the GPU (as NVIDIA's own device plugin has it).
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})


@dataclass(frozen=True, slots=True)
class Xid:
    """The driver reported an error. No UUID: nobody knows which GPU's. No instances: it is the whole GPU's."""

    number: int
    uuid: str | None
    gpu_instance: int | None = None
    compute_instance: int | None = None

    def concerns(self, gpu: Gpu) -> bool:
        """Whether the error is one of this GPU or MIG device."""
        if self.uuid == gpu.uuid:
            return True
        if self.uuid is None or self.uuid != gpu.parent_uuid:
            return False
        if self.gpu_instance is None or self.compute_instance is None:
            return True
        return (self.gpu_instance, self.compute_instance) == (gpu.gpu_instance, gpu.compute_instance)


@dataclass(frozen=True, slots=True)
class _Fault:
    reason: str
    at: float
    """When it was last seen."""


class HealthTracker:
    """What is known about each GPU's health.

    A critical XID or a failed probe makes a GPU unhealthy. It is healthy again when a probe succeeds and no fault was
    seen for ``recovery_seconds``.
    """

    def __init__(self, ignored_xids: Iterable[int], recovery_seconds: float) -> None:
        self._ignored = APPLICATION_XIDS | set(ignored_xids)
        self._recovery_seconds = recovery_seconds
        self._faults: dict[str, _Fault] = {}

    def xid(self, event: Xid, gpus: Iterable[Gpu], now: float) -> bool:
        """Takes note of an XID; False when it says nothing about a GPU's health."""
        if event.number in self._ignored:
            return False
        for gpu in gpus:
            if event.concerns(gpu):
                self._faults[gpu.uuid] = _Fault(f"XID {event.number} ({_meaning(event.number)})", now)
        return True

    def probed(self, results: Mapping[str, str | None], now: float) -> None:
        """Takes note of a probe of each of these GPUs: None when it succeeded, else what is wrong."""
        for uuid, problem in results.items():
            fault = self._faults.get(uuid)
            if problem is not None:
                self._faults[uuid] = _Fault(problem, now)
            elif fault is not None and now - fault.at >= self._recovery_seconds:
                del self._faults[uuid]

    def problem(self, uuid: str) -> str | None:
        """Why the GPU is unhealthy; None when it is healthy."""
        fault = self._faults.get(uuid)
        return None if fault is None else fault.reason


def _meaning(xid: int) -> str:
    known = {
        48: "double bit ECC error",
        62: "internal micro-controller halt",
        63: "memory row remapping",
        64: "memory row remapping failed",
        74: "NVLink error",
        79: "GPU has fallen off the bus",
        92: "high rate of single bit ECC errors",
        94: "contained ECC error",
        95: "uncontained ECC error",
        119: "GSP timeout",
        120: "GSP error",
    }
    return known.get(xid, "see NVIDIA's list of XID errors")

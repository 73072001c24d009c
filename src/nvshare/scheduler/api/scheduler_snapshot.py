"""The scheduler at one moment, as the metrics show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nvshare.nvml_state import NvmlState
from nvshare.scheduler.arenas.storing import FileTimes
from nvshare.scheduler.clients.faults import Fault
from nvshare.scheduler.core.snapshot import DeviceSnapshot, HostMemory
from nvshare.scheduler.sleeping.process import SleepTimes


@dataclass(frozen=True, slots=True)
class SchedulerSnapshot:
    """The scheduler at one moment."""

    devices: tuple[DeviceSnapshot, ...]
    allocations_without_client: Mapping[str, int]
    """Containers by device; devices without any may be left out."""
    allocations_by_others: Mapping[str, int]
    """The same of containers to which another plugin gave a device that nvshare shares."""
    connections: int
    connections_limit: int
    """How many there can be."""
    drops: Mapping[Fault, int]
    """Since the start."""
    accept_pauses: int
    """Since the start."""
    log_lines_dropped: int
    """Since the start."""
    host_memory: HostMemory
    sleep_times: SleepTimes
    file_times: FileTimes
    nvml: NvmlState

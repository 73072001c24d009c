"""From what NVML measured to what the core is told about memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nvshare.scheduler.core.events import DeviceSeen, PinnedMeasured
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot

NATIVE = "native"
"""The backend whose allocations show in a process's bytes. Managed memory does not."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The memory of one device at one moment."""

    total_bytes: int
    used_bytes: int
    processes: dict[int, int]
    """Bytes by pid, of the processes for which NVML says it."""


@dataclass(frozen=True, slots=True)
class Process:
    """By what a client is found in NVML's list; pid 0 is never there."""

    pid: int
    backend: str


def measured(
    device: DeviceSnapshot, processes: Mapping[int, Process], usage: Usage
) -> list[DeviceSeen | PinnedMeasured]:
    """What is new: the pinned bytes of clients, and the bytes of processes that are no clients.

    ``processes`` are the clients' by number. A client that NVML does not list (its pid is hidden, or NVML can't say) is
    assumed to use what it is charged.
    """
    by_pid: dict[int, list[ClientSnapshot]] = {}
    explained = hidden = 0
    for client in device.clients:
        pid, backend = processes[client.client].pid, processes[client.client].backend
        if pid in usage.processes:
            by_pid.setdefault(pid, []).append(client)
            if backend != NATIVE:
                explained += client.footprint_bytes or 0
        else:
            hidden += (client.footprint_bytes or 0) + client.pinned_bytes
    events: list[DeviceSeen | PinnedMeasured] = []
    for pid, clients in by_pid.items():
        used = usage.processes[pid]
        explained += used
        # Usually one; more while a process that lost its connection has made a new one.
        listed = sum(client.footprint_bytes or 0 for client in clients if processes[client.client].backend == NATIVE)
        share = max(0, used - listed) // len(clients)
        events.extend(
            PinnedMeasured(client.client, share)
            for client in clients
            if not client.pinned_measured or client.pinned_bytes != share
        )
    # Managed pages may be anywhere, so that the others' own bytes are the better answer if they are more.
    others = sum(used for pid, used in usage.processes.items() if pid not in by_pid)
    foreign = max(usage.used_bytes - explained - hidden, others - hidden, 0)
    total = device.total_bytes or usage.total_bytes
    if (total, foreign) != (device.total_bytes, device.foreign_bytes):
        events.insert(0, DeviceSeen(device.device, total, foreign))
    return events

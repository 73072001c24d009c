"""From what NVML measured to what the core is told about memory. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nvshare.scheduler.core.events import DeviceSeen, PinnedAssumed, PinnedMeasured
from nvshare.scheduler.core.settings import ASSUMED_PINNED_BYTES
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState

NATIVE = "native"
"""A backend whose allocations show in a process's bytes, as what swaps does while it is there. Managed memory does not.
"""


_ASLEEP = (ShownState.ASLEEP, ShownState.WAKING)
"""Nothing of it is there before it is listed."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The memory of one device at one moment."""

    total_bytes: int
    used_bytes: int
    processes: dict[int, int | None]
    """Bytes by pid, of the processes that have a context; None where NVML does not say how many (MIG, WSL)."""


@dataclass(frozen=True, slots=True)
class Process:
    """By what a client is found in NVML's list; pid 0 is never there."""

    pid: int
    backend: str


Measured = DeviceSeen | PinnedMeasured | PinnedAssumed
"""What a measurement tells."""


def on_device(client: ClientSnapshot) -> int:
    """What a client whose memory swaps has on the device beside what the driver pins for it."""
    return 0 if client.swap is None else client.swap.resident_bytes + client.swap.fixed_bytes


def measured(
    device: DeviceSnapshot,
    processes: Mapping[int, Process],
    usage: Usage,
    moved: Collection[int] = (),
    departed: Collection[int] = (),
    *,
    settled: bool = True,
) -> list[Measured]:
    """What is new: the pinned bytes of clients, and the bytes of processes that are no clients.

    ``processes`` are the clients' by number. What clients pin that ``moved`` can't be told. ``departed`` are the pids
    of processes whose memory counts still, though they are no clients. Not ``settled``: others may become clients soon.

    A client whose bytes NVML does not give (its pid is hidden, or NVML can't say them) is assumed to pin as much as any
    program does, but all of these together not more than what is in use and not explained by others. One that idles,
    has nothing on the device and that NVML would list, as it lists other clients, has no context, nor has one that
    waits for room for it.
    """
    by_pid, hidden, without_context = _told_apart(device.clients, processes, usage)
    events: list[Measured] = []
    for client in without_context:
        events.extend(_assumed(client, 0))
    for pid, clients in by_pid.items():
        # Usually one; more while a process that lost its connection has made a new one.
        listed = sum(_listed(client, processes[client.client].backend) for client in clients)
        share = max(0, (usage.processes[pid] or 0) - listed) // len(clients)
        events.extend(
            PinnedMeasured(client.client, share)
            for client in clients
            if client.client not in moved and (not client.pinned_measured or client.pinned_bytes != share)
        )
    explained = sum(usage.processes.get(pid) or 0 for pid in {*by_pid, *departed})
    for client in (client for clients in by_pid.values() for client in clients):
        explained += _elsewhere(client, processes[client.client].backend)
    charged = _charge_hidden(hidden, processes, usage.used_bytes - explained, events)
    # Managed pages may be anywhere, so that the others' own bytes are the better answer if they are more.
    others = sum(used or 0 for pid, used in usage.processes.items() if pid not in by_pid and pid not in departed)
    foreign = max(usage.used_bytes - explained - charged, others - charged, 0)
    # What a client found lacking counts until the device was measured, and a growth in doubt waits until then.
    new = not device.total_measured or device.shortage_bytes > 0 or device.in_doubt
    if new or (usage.total_bytes, foreign) != (device.total_bytes, device.foreign_bytes):
        # At the end: then all of this measurement is known.
        events.append(DeviceSeen(device.device, usage.total_bytes, foreign, settled or not foreign))
    return events


def unmeasured(device: DeviceSnapshot) -> list[Measured]:
    """What is new where a device could not be measured: for those who wait for that, what is known counts.

    What a client found lacking others have, then.
    """
    known_bytes = device.foreign_bytes + device.shortage_bytes
    return [DeviceSeen(device.device, device.total_bytes, known_bytes)] if device.in_doubt else []


def _told_apart(
    clients: Iterable[ClientSnapshot], processes: Mapping[int, Process], usage: Usage
) -> tuple[dict[int, list[ClientSnapshot]], list[ClientSnapshot], list[ClientSnapshot]]:
    """By pid those whose bytes NVML gives; those whose it does not; those that have no context. Those are none that
    sleep, or wait for room for their context."""
    # Pids that NVML sees from another namespace would match no client.
    lists_clients = any(process.pid in usage.processes for process in processes.values())
    by_pid: dict[int, list[ClientSnapshot]] = {}
    hidden: list[ClientSnapshot] = []
    without_context: list[ClientSnapshot] = []
    for client in clients:
        pid, backend = processes[client.client].pid, processes[client.client].backend
        rests = client.state is ShownState.IDLE and not _listed(client, backend)
        if usage.processes.get(pid) is not None:
            by_pid.setdefault(pid, []).append(client)
        elif lists_clients and pid and pid not in usage.processes and rests:
            without_context.append(client)
        elif client.state not in _ASLEEP and not (client.swap and client.swap.awaits_context):
            hidden.append(client)
    return by_pid, hidden, without_context


def _charge_hidden(
    hidden: list[ClientSnapshot],
    processes: Mapping[int, Process],
    unexplained: int,
    events: list[Measured],
) -> int:
    """Assumes what clients pin whose bytes are not given; the answer is what all of them are charged with."""
    for client in hidden:
        unexplained -= _listed(client, processes[client.client].backend)
        if client.pinned_measured:
            unexplained -= client.pinned_bytes
    unmeasured = [client for client in hidden if not client.pinned_measured]
    most = min(ASSUMED_PINNED_BYTES, max(0, unexplained) // max(1, len(unmeasured)))
    for client in unmeasured:
        events.extend(_assumed(client, most))
    return sum(
        _listed(each, processes[each.client].backend)
        + _elsewhere(each, processes[each.client].backend)
        + (each.pinned_bytes if each.pinned_measured else most)
        for each in hidden
    )


def _listed(client: ClientSnapshot, backend: str) -> int:
    """What shows in its process's bytes beside what is pinned."""
    if client.swap is not None:
        return on_device(client)
    return (client.footprint_bytes or 0) if backend == NATIVE else 0


def _elsewhere(client: ClientSnapshot, backend: str) -> int:
    """What is in use for it, or may be, and does not show there."""
    return 0 if backend == NATIVE or client.swap is not None else client.footprint_bytes or 0


def _assumed(client: ClientSnapshot, pinned_bytes: int) -> list[PinnedAssumed]:
    known = not client.pinned_measured and client.pinned_bytes == pinned_bytes
    return [] if known else [PinnedAssumed(client.client, pinned_bytes)]

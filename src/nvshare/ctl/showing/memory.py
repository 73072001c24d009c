"""A device's memory as a sum: clients, other processes, and what is free. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nvshare.admin import admin_pb2

_GIB = 1024**3
_MIB = 1024**2
_GIB_FROM = 8 * _GIB
"""Devices of this much memory are shown in GiB with one decimal, smaller ones in MiB."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Who uses what of one device; None: not known."""

    total_bytes: int | None
    clients_bytes: int
    """Footprints and pinned memory, as far as they are known; of memory that swaps what is on the device."""
    clients_known: bool
    """False: some client does not report its footprint."""
    foreign_bytes: int | None

    @property
    def free_bytes(self) -> int | None:
        """Negative where clients have allocated more than there is, which does not swap, and take turns."""
        if self.total_bytes is None or self.foreign_bytes is None or not self.clients_known:
            return None
        return self.total_bytes - self.foreign_bytes - self.clients_bytes


def of(device: admin_pb2.Device) -> Memory:
    """What a scheduler says of a device."""
    return Memory(
        device.total_bytes or None,
        sum(on_device(client) + client.pinned_bytes for client in device.clients),
        all(client.HasField("footprint_bytes") for client in device.clients),
        device.foreign_bytes if device.HasField("foreign_bytes") else None,
    )


def on_device(client: admin_pb2.Client) -> int:
    """How much of what the client allocated is on the device; of memory that the driver pages, all counts."""
    if client.HasField("swap"):
        return client.swap.resident_bytes + client.swap.fixed_bytes
    return client.footprint_bytes


def as_sum(memory: Memory) -> str:
    """``clients 12.6 + others 0.5 + free 2.9 = 16.0 GiB``: in one unit, and the numbers that are shown add up."""
    in_gib = (memory.total_bytes or memory.clients_bytes) >= _GIB_FROM
    # In tenths of a GiB, or in MiB.
    step = _GIB / 10 if in_gib else _MIB

    def shown(steps: int) -> str:
        return f"{steps / 10:.1f}" if in_gib else str(steps)

    unit = "GiB" if in_gib else "MiB"
    clients = round(memory.clients_bytes / step)
    used = f"clients {shown(clients)}{'' if memory.clients_known else '+?'}"
    if memory.foreign_bytes is None:
        used += " + others ?"
        foreign = 0
    else:
        foreign = round(memory.foreign_bytes / step)
        used += f" + others {shown(foreign)}"
    if memory.total_bytes is None:
        return f"{used} {unit}, of an unknown total"
    total = round(memory.total_bytes / step)
    if memory.free_bytes is None:
        return f"{used} of {shown(total)} {unit}"
    free = total - clients - foreign
    if free < 0:
        return f"{used} = {shown(total)} + {shown(-free)} {unit} oversubscribed"
    return f"{used} + free {shown(free)} = {shown(total)} {unit}"

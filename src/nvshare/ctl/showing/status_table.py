"""The status as people read it: per device a heading, a bar of its memory and a table of its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.ctl.showing import memory
from nvshare.ctl.showing.client_table import ClientTable, Row
from nvshare.ctl.showing.status_words import (
    LABEL,
    NOT_KNOWN,
    claimed_words,
    client_name,
    container_of,
    figures,
    in_order,
    lasts,
    mix_text,
    notes,
    place,
    short_paths,
    waits,
)

_BAR_CELLS = 10
_FIGURES = ("FOOTPRINT", "PINNED", "HELD", "WAITED")
_SWAP_FIGURES = ("FOOTPRINT", "RESIDENT", "SWAPPED", "STORED", "SHARED", "PINNED", "HELD", "WAITED", "ALLOTTED")
"""In the order of the columns. In a narrow terminal the last go first."""


def render(status: admin_pb2.Status) -> RenderableType:
    """Everything that the scheduler says, readable at 80 columns: a line a client, and what more there is below."""
    parts: list[RenderableType] = []
    for device in status.devices:
        parts += [*_heading(device), *_clients(device), *_allocations(device), Text()]
    if not parts:
        parts += [Text("No device yet: no client has used one since the scheduler started."), Text()]
    if status.host_memory_bytes:
        used, budget = display.size(status.host_memory_used_bytes), display.size(status.host_memory_bytes)
        packs, shared = display.size(status.packs_bytes), display.size(status.shared_blocks_bytes)
        once = f", of it {packs} for {shared} of equal data" if status.packs_bytes else ""
        parts.append(Text(f"host memory for what is swapped: {used} of {budget}{once}", style="dim"))
    if status.swap_file_bytes:
        used, budget = display.size(status.swap_file_used_bytes), display.size(status.swap_file_bytes)
        parts.append(Text(f"disk for what sleeps: {used} of {budget}, in {status.swap_dir}", style="dim"))
    version = f"nvshare-scheduler {status.version}".strip()
    parts.append(
        Text(f"{version}, pid {status.scheduler_pid}, up {display.duration(status.uptime_seconds)}", style="dim")
    )
    return Group(*parts)


def _heading(device: admin_pb2.Device) -> Iterable[RenderableType]:
    name = Text(" ".join(part for part in (device.index, device.name or "GPU") if part), style="bold")
    yield Text("  ").join([name, Text(device.uuid)])
    yield _memory(device)
    if device.reserve_bytes:
        yield Text.assemble(("swap    ", "dim"), _swapping(device))
    if device.HasField("claimed"):
        yield Text.assemble(("claims  ", "dim"), claimed_words(device.claimed))
    yield Text.assemble(("turns   ", "dim"), _turns(device))
    if device.HasField("mix"):
        yield Text.assemble(("together", "dim"), f": {mix_text(device.mix)}")
    for holder in device.awaited:
        whom = f"pid {holder.pid}" if holder.pid else "a process that can't be seen"
        yield Text(f"        recovering: waits for {whom} ({short_paths(holder.command) or '?'})", "yellow")


def _memory(device: admin_pb2.Device) -> Text:
    of_device = memory.of(device)
    total = max(device.total_bytes, 1)
    foreign_cells = min(round(_BAR_CELLS * device.foreign_bytes / total), _BAR_CELLS)
    client_cells = min(round(_BAR_CELLS * of_device.clients_bytes / total), _BAR_CELLS - foreign_cells)
    full = of_device.clients_bytes + device.foreign_bytes > total
    return Text.assemble(
        ("memory  ", "dim"),
        ("█" * foreign_cells, "bright_black"),
        ("█" * client_cells, "yellow" if full else "green"),
        ("░" * (_BAR_CELLS - foreign_cells - client_cells), "dim"),
        f" {memory.as_sum(of_device)}",
    )


def _swapping(device: admin_pb2.Device) -> str:
    swapped = sum(client.swap.swapped_bytes for client in device.clients)
    stored = sum(client.swap.stored_bytes for client in device.clients)
    in_files = f" ({display.size(stored)} of it in files)" if stored else ""
    so_far = device.swapping
    spared = f" and {display.size(so_far.spared_bytes)} unchanged" if so_far.spared_bytes else ""
    return (
        f"{display.size(swapped)} swapped{in_files}, reserve {display.size(device.reserve_bytes)}; "
        f"in all {display.size(so_far.out_bytes)} out{spared}, {display.size(so_far.in_bytes)} in"
    )


def _turns(device: admin_pb2.Device) -> str:
    states = Counter(client.state for client in device.clients)
    left = f" ({display.duration(device.quantum_left_seconds)} left)" if device.HasField("quantum_left_seconds") else ""
    parts = [f"policy {device.policy}", f"quantum {device.quantum_seconds:g} s{left}"]
    parts += [f"{states[state]} {state}" for state in display.STATE_STYLES if states[state]]
    return ", ".join(parts)


def _clients(device: admin_pb2.Device) -> Iterable[RenderableType]:
    if not device.clients:
        yield Text("        no clients", style="dim")
        return
    names = _figures_of(device)
    pids = {client.id: client.pid for client in device.clients}
    waiters = sum(client.position > 0 for client in device.clients)
    clients = in_order(device.clients)
    yield ClientTable(
        names,
        [
            Row(
                str(client.pid or NOT_KNOWN),
                client_name(client),
                container_of(client),
                client.state,
                lasts(client),
                tuple(figures(client)[name] for name in names),
                waits(client, pids, waiters),
                short_paths(client.command) or NOT_KNOWN,
            )
            for client in clients
        ],
    )
    yield _labelled(notes(device, clients))


def _figures_of(device: admin_pb2.Device) -> Sequence[str]:
    if not any(client.HasField("swap") for client in device.clients):
        return _FIGURES
    elsewhere = {
        "STORED": any(client.swap.stored_bytes for client in device.clients),
        "SHARED": any(client.swap.shared_bytes for client in device.clients),
    }
    return [name for name in _SWAP_FIGURES if elsewhere.get(name, True)]


def _labelled(notes: Iterable[tuple[str, Text]]) -> Table:
    """Lines under labels, as those of the heading are; what is longer than a line goes on behind the label."""
    table = Table.grid()
    table.add_column(width=LABEL, style="dim")
    table.add_column()
    for label, text in notes:
        table.add_row(label, text)
    return table


def _allocations(device: admin_pb2.Device) -> Iterable[RenderableType]:
    for entry in device.allocations_without_client:
        by_claim = f"{display.count(entry.shares, 'share')} by claim {entry.claim}"
        amount = by_claim if entry.claim else display.count(len(entry.virtual_device_ids), "virtual device")
        yield Text.assemble(
            ("allocated, no client: ", "yellow"), escape(place(entry.identity) or "unknown container"), f", {amount}"
        )
    for entry in device.allocations_by_others:
        yield Text.assemble(
            (f"given by {entry.resource}, too: ", "yellow"), escape(place(entry.identity) or "unknown container")
        )

"""The status as people read it: per device a heading, a bar of its memory and a table of its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2

_BAR_CELLS = 20


def render(status: admin_pb2.Status) -> RenderableType:
    """Everything that the scheduler says, readable at 80 columns; only commands and names are ever shortened."""
    parts: list[RenderableType] = []
    for device in status.devices:
        parts += [*_heading(device), *_clients(device), *_allocations(device), Text()]
    if not parts:
        parts += [Text("No device yet: no client has used one since the scheduler started."), Text()]
    version = f"nvshare-scheduler {status.version}".strip()
    parts.append(
        Text(f"{version}, pid {status.scheduler_pid}, up {display.duration(status.uptime_seconds)}", style="dim")
    )
    return Group(*parts)


def _heading(device: admin_pb2.Device) -> Iterable[RenderableType]:
    name = Text(device.name or "GPU", style="bold")
    yield Text("  ").join([name, Text(device.uuid)])
    yield _memory(device)
    yield Text.assemble(("turns   ", "dim"), _turns(device))
    for holder in device.awaited:
        whom = f"pid {holder.pid}" if holder.pid else "a process that can't be seen"
        yield Text(f"        recovering: waits for {whom} ({_short_paths(holder.command) or '?'})", "yellow")


def _memory(device: admin_pb2.Device) -> Text:
    clients = sum(client.footprint_bytes + client.pinned_bytes for client in device.clients)
    total = max(device.total_bytes, 1)
    foreign_cells = min(round(_BAR_CELLS * device.foreign_bytes / total), _BAR_CELLS)
    client_cells = min(round(_BAR_CELLS * clients / total), _BAR_CELLS - foreign_cells)
    full = clients + device.foreign_bytes > total
    return Text.assemble(
        ("memory  ", "dim"),
        ("█" * foreign_cells, "bright_black"),
        ("█" * client_cells, "yellow" if full else "green"),
        ("░" * (_BAR_CELLS - foreign_cells - client_cells), "dim"),
        f" clients {display.size(clients)}, others {display.size(device.foreign_bytes)}, ",
        f"of {display.size(device.total_bytes)}",
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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    for column in ("PID", "STATE", "FOOTPRINT", "HELD", "WAITED"):
        number = column not in ("STATE",)
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    table.add_column("COMMAND", ratio=1, no_wrap=True, overflow="ellipsis")
    order = list(display.STATE_STYLES)
    for client in sorted(device.clients, key=lambda each: (_rank(order, each.state), each.id)):
        table.add_row(
            str(client.pid),
            Text(client.state, style=display.STATE_STYLES.get(client.state, "")),
            display.size(client.footprint_bytes),
            display.duration(client.held_seconds),
            display.duration(client.waited_seconds),
            _who(client),
        )
    yield table


def _rank(order: list[str], state: str) -> int:
    return order.index(state) if state in order else len(order)


def _who(client: admin_pb2.Client) -> Text:
    command = _short_paths(client.command) or "?"
    if place := _place(client.identity):
        return Text("\n").join([Text(place), Text(command, style="dim")])
    return Text(command)


def _short_paths(command: str) -> str:
    """The command with ``…/NAME`` for every long path in it: then its first words fit the column."""
    return " ".join(
        f"…/{word.rsplit('/', 1)[1]}" if word.startswith("/") and word.count("/") > 1 else word
        for word in command.split()
    )


def _place(identity: admin_pb2.Identity) -> str:
    place = "/".join(part for part in (identity.namespace, identity.pod, identity.container) if part)
    return f"{place} (as it says)" if place and identity.source == "hint" else place


def _allocations(device: admin_pb2.Device) -> Iterable[RenderableType]:
    for entry in device.allocations_without_client:
        amount = display.count(len(entry.virtual_device_ids), "virtual device")
        yield Text.assemble(
            ("allocated, no client: ", "yellow"), escape(_place(entry.identity) or "unknown container"), f", {amount}"
        )

"""The status as people read it: per device a heading, a bar of its memory and a table of its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.ctl import memory

_BAR_CELLS = 10
_TRANSFER_CELLS = 8
_NARROWEST_COMMAND = 14
"""Columns that COMMAND gets at least: figures are left out before it has fewer."""
_GAP = 2
_STILL_SECONDS = 1.0
"""Who has moved nothing for so long does not move at the rate of late."""
_FIGURES = ("FOOTPRINT", "PINNED", "HELD", "WAITED")
_SWAP_FIGURES = ("FOOTPRINT", "RESIDENT", "SWAPPED", "PINNED", "HELD", "WAITED", "ALLOTTED")
"""In the order of the columns. In a narrow terminal the last go first."""
_NOT_KNOWN = "?"


def render(status: admin_pb2.Status) -> RenderableType:
    """Everything that the scheduler says, readable at 80 columns; only commands and names are ever shortened."""
    parts: list[RenderableType] = []
    for device in status.devices:
        parts += [*_heading(device), *_clients(device), *_allocations(device), Text()]
    if not parts:
        parts += [Text("No device yet: no client has used one since the scheduler started."), Text()]
    if status.host_memory_bytes:
        used, budget = display.size(status.host_memory_used_bytes), display.size(status.host_memory_bytes)
        parts.append(Text(f"host memory for what is swapped: {used} of {budget}", style="dim"))
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
    so_far = device.swapping
    return (
        f"{display.size(swapped)} swapped, reserve {display.size(device.reserve_bytes)}; "
        f"in all {display.size(so_far.out_bytes)} out, {display.size(so_far.in_bytes)} in"
    )


def _turns(device: admin_pb2.Device) -> str:
    states = Counter(client.state for client in device.clients)
    left = f" ({display.duration(device.quantum_left_seconds)} left)" if device.HasField("quantum_left_seconds") else ""
    parts = [f"policy {device.policy}", f"quantum {device.quantum_seconds:g} s{left}"]
    parts += [f"{states[state]} {state}" for state in display.STATE_STYLES if states[state]]
    return ", ".join(parts)


def mix_text(mix: admin_pb2.Mix) -> str:
    """Whether those that fit do better together, and what that was found from."""
    if mix.HasField("ratio"):
        found = f"{mix.ratio:.2f} of turns"
    elif mix.HasField("bursts"):
        found = f"bursts take {mix.bursts:.2f} times as long as in turns"
    else:
        return "measuring" if mix.measuring else "not known, so together"
    better = "turns" if mix.turns else "together"
    return f"{found}, so {better}" + (", measuring again" if mix.measuring else "")


def _clients(device: admin_pb2.Device) -> Iterable[RenderableType]:
    if not device.clients:
        yield Text("        no clients", style="dim")
        return
    pids = {client.id: client.pid for client in device.clients}
    waiters = sum(client.position > 0 for client in device.clients)
    names = _SWAP_FIGURES if any(client.HasField("swap") for client in device.clients) else _FIGURES
    clients = in_order(device.clients)
    yield _ClientTable(
        names,
        [
            _Row(
                str(client.pid or _NOT_KNOWN),
                client.state,
                tuple(_figures(client)[name] for name in names),
                [
                    *_who(client),
                    *_terms(client),
                    *_transfers(client, device.swapping),
                    *_more(client, pids, waiters),
                ],
            )
            for client in clients
        ],
    )


@dataclass(frozen=True, slots=True)
class _Row:
    pid: str
    state: str
    figures: tuple[str, ...]
    """One for each of the table's columns of figures."""
    words: list[Text]
    """Who the client is and what there is to say of it, line by line."""


@dataclass(frozen=True, slots=True)
class _ClientTable:
    """The clients of one device, with as many columns as there is room for."""

    figures: Sequence[str]
    """The names of the columns of figures."""
    rows: Sequence[_Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [
            max(len(name), *(len(row.figures[place]) for row in self.rows)) for place, name in enumerate(self.figures)
        ]
        left = options.max_width - _NARROWEST_COMMAND
        left -= max(3, *(len(row.pid) for row in self.rows)) + max(5, *(len(row.state) for row in self.rows)) + 2 * _GAP
        shown = 0
        while shown < len(widths) and left >= widths[shown] + _GAP:
            left -= widths[shown] + _GAP
            shown += 1
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", expand=True)
        table.add_column("PID", justify="right", no_wrap=True)
        table.add_column("STATE", no_wrap=True)
        for name in self.figures[:shown]:
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("COMMAND", ratio=1)
        for row in self.rows:
            state = Text(row.state, style=display.STATE_STYLES.get(row.state, ""))
            table.add_row(row.pid, state, *row.figures[:shown], Group(*row.words))
        yield table


def _figures(client: admin_pb2.Client) -> dict[str, str]:
    pinned = display.size(client.pinned_bytes)
    figures = {
        "FOOTPRINT": display.size(client.footprint_bytes) if client.HasField("footprint_bytes") else _NOT_KNOWN,
        "PINNED": pinned if client.pinned_measured else f"~{pinned}",
        "HELD": display.duration(client.held_seconds),
        "WAITED": display.duration(client.waited_seconds),
    }
    if client.HasField("swap"):
        swap = client.swap
        allotted = swap.allotted_bytes + swap.fixed_bytes
        figures |= {
            "RESIDENT": display.size(memory.on_device(client)),
            "SWAPPED": display.size(swap.swapped_bytes),
            "ALLOTTED": display.size(allotted),
        }
    else:
        figures |= dict.fromkeys(("RESIDENT", "SWAPPED", "ALLOTTED"), "")
    return figures


def _transfers(client: admin_pb2.Client, of_device: admin_pb2.Swapping) -> Iterable[Text]:
    """What is on the way now: how much of what can be swapped is on the device, as a bar, and how fast it moves."""
    swap = client.swap
    movable = max(client.footprint_bytes - swap.fixed_bytes, 1)
    share = min(swap.resident_bytes / movable, 1.0)
    cells = int(share * _TRANSFER_CELLS)
    for name, left, speed in (
        ("swap-in", swap.coming_bytes, of_device.in_bytes_per_second),
        ("swap-out", swap.leaving_bytes, of_device.out_bytes_per_second),
    ):
        if left:
            pace = display.rate(speed) if speed else ""
            if swap.still_seconds >= _STILL_SECONDS:
                pace = f"nothing for {display.duration(swap.still_seconds)}"
            text = f" {display.size(left)} left" + (f", {pace}" if pace else "")
            yield Text.assemble(f"{name} ", ("━" * cells, "cyan"), ("╌" * (_TRANSFER_CELLS - cells), "dim"), text)


def _more(client: admin_pb2.Client, pids: dict[int, int], waiters: int) -> list[Text]:
    lines = []
    if client.position:
        holders = ", ".join(str(pids[number]) for number in client.behind if number in pids)
        place = f"waits {display.duration(client.waiting_seconds)}, {client.position} of {waiters}"
        data = "its data" if client.swap.coming_bytes else "room on the GPU"
        what = holders or (data if client.swap.swapped_bytes else "")
        if client.too_large:
            what = f"others to end: {display.size(client.footprint_bytes)} don't fit beside what can't leave the GPU"
        lines.append(Text(f"{place}, for {what}" if what else place, style="yellow"))
    if client.HasField("gang"):
        gang = client.gang
        if gang.expected:
            waits = "waits for its gang" if client.state == "waiting" else "its gang is not complete"
            lines.append(Text(f"{waits}: {gang.come} of {gang.expected} have come", style="yellow"))
        here = f"{gang.members} of {gang.size}" if gang.size > gang.members else str(gang.members)
        apart = ", which do not fit together" if gang.apart else ""
        lines.append(
            Text(f"{gang.name}: {here} client{'' if here == '1' else 's'}{apart}", style="yellow" if apart else "dim")
        )
    if wait := memory_wait(client):
        lines.append(Text(wait, style="yellow"))
    if client.drain:
        lines.append(Text(f"drain: {client.drain}", style="yellow"))
    lines += [Text(notice, style="yellow") for notice in client.notices]
    return lines


def memory_wait(client: admin_pb2.Client) -> str:
    """What memory its program waits for, and why where that is not only for others to make way; empty: for none."""
    wanted = client.swap.wanted_bytes
    start = f"waits for {display.size(wanted)} of memory" if wanted else "no memory yet" if client.memory_wait else ""
    return f"{start}: {client.memory_wait}" if client.memory_wait else start


def in_order(clients: Iterable[admin_pb2.Client]) -> list[admin_pb2.Client]:
    """By what they do, and those that wait in the order of their line."""
    order = list(display.STATE_STYLES)

    def rank(state: str) -> int:
        return order.index(state) if state in order else len(order)

    return sorted(clients, key=lambda each: (rank(each.state), each.position, each.id))


def _who(client: admin_pb2.Client) -> list[Text]:
    command = short_paths(client.command) or _NOT_KNOWN
    if pod := place(client.identity):
        return [_shortened(pod), _shortened(command, "dim")]
    return [_shortened(command)]


def _terms(client: admin_pb2.Client) -> Iterable[Text]:
    """The container's name, where it has one that is not on the line above, and what of its terms is no default.

    Where it comes from is said of what the environment of the container's processes does not say.
    """
    shown = ", ".join(f"{text}{_origin(client.terms, name)}" for name, text in _told(client).items())
    chosen = "@" in client.member_of and not client.member_of.startswith("pid:")
    if chosen or (shown and client.member_of and not place(client.identity)):
        shown = f"{client.member_of}: {shown}" if shown else client.member_of
    if shown:
        yield Text(shown, "dim")


def terms_words(client: admin_pb2.Client) -> list[str]:
    """What of its terms is no default."""
    return list(_told(client).values())


def _told(client: admin_pb2.Client) -> dict[str, str]:
    """The same, by the names of the fields."""
    terms = client.terms
    told = {
        "weight": f"weight {terms.weight:g}" if terms.weight not in (0, 1) else "",
        "priority": f"priority {terms.priority}" if terms.priority not in ("", "normal") else "",
        "compute_limit": f"compute {terms.compute_limit * 100:g} %" if terms.HasField("compute_limit") else "",
        "memory_limit_bytes": (
            f"limit {display.size(terms.memory_limit_bytes)}" if terms.HasField("memory_limit_bytes") else ""
        ),
        "memory_request_bytes": _request(client),
        "when_full": _when_full(client),
    }
    return {name: text for name, text in told.items() if text}


def _origin(terms: admin_pb2.Terms, name: str) -> str:
    if name in terms.by_command:
        return " (set)"
    return " (annotation)" if name in terms.by_annotation else ""


def _request(client: admin_pb2.Client) -> str:
    requested, kept = client.terms.memory_request_bytes, client.memory_kept_bytes
    if not requested:
        return ""
    shown = f"request {display.size(requested)}"
    return shown if kept >= requested else f"{shown}, {display.size(kept) if kept else 'none'} of it kept"


def _when_full(client: admin_pb2.Client) -> str:
    said, usual = client.terms.when_full, "wait" if place(client.identity) else "refuse"
    return f"when full {said}" if said and said != usual else ""


def _shortened(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def short_paths(command: str) -> str:
    """The command with ``…/NAME`` for every long path in it: then its first words fit the column."""
    return " ".join(
        f"…/{word.rsplit('/', 1)[1]}" if word.startswith("/") and word.count("/") > 1 else word
        for word in command.split()
    )


def place(identity: admin_pb2.Identity) -> str:
    """NAMESPACE/POD/CONTAINER as far as it is known; empty outside a cluster."""
    found = "/".join(part for part in (identity.namespace, identity.pod, identity.container) if part)
    return f"{found} (as it says)" if found and identity.source == "hint" else found


def _allocations(device: admin_pb2.Device) -> Iterable[RenderableType]:
    for entry in device.allocations_without_client:
        amount = display.count(len(entry.virtual_device_ids), "virtual device")
        yield Text.assemble(
            ("allocated, no client: ", "yellow"), escape(place(entry.identity) or "unknown container"), f", {amount}"
        )
    for entry in device.allocations_by_others:
        yield Text.assemble(
            (f"given by {entry.resource}, too: ", "yellow"), escape(place(entry.identity) or "unknown container")
        )

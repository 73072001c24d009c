"""What the screen shows of one device, line by line: how it is shared, its memory, its clients and their turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.container_names import given
from nvshare.ctl.showing import memory, timeline_views
from nvshare.ctl.showing.status_words import client_name, in_order, lasts, memory_wait, mix_text, place, terms_words
from nvshare.ctl.top import memory_bar
from nvshare.ctl.top.columns import Column, table
from nvshare.ctl.top.figures import Colors, command, signs, who

_LABEL = 10
_HOLDING = ("holding", "leaving", "unresponsive")
_WIDE = 110
"""Columns of a terminal in which commands have room beside everything else."""
SORTINGS = {"o": "STATE", "i": "PID", "m": "RESIDENT", "t": "TIME", "w": "WAIT"}
"""The keys that sort the clients, and by which column."""


@dataclass(frozen=True, slots=True)
class Look:
    """What all sections of a screen have in common."""

    width: int
    colors: Colors
    shares: dict[int, float]
    """Of the devices' time of late, by the clients' ids."""
    sorting: str = "STATE"
    chosen: int = 0
    """The id of the client that is marked; 0: none."""
    used: Mapping[int, float] = field(default_factory=dict)
    """Of the time that they held, by the clients' ids, in which share their device executed something."""


def name_of(device: admin_pb2.Device) -> str:
    """``GPU 0``, or the UUID where it has no index."""
    return f"GPU {device.index}" if device.index else device.uuid


def overview(devices: Sequence[admin_pb2.Device], chosen: str, look: Look) -> list[Text]:
    """A line for each device, under a line of names; the chosen one is marked."""
    columns = [
        Column(""),
        Column("GPU", most=12),
        Column("NAME", most=16 if look.width < _WIDE else 40),
        Column("POLICY"),
        Column("QUANTUM"),
        Column("MEMORY"),
        Column("WAIT", right=True),
        Column("HELD BY"),
    ]
    cells = 10 if look.width < _WIDE else 30
    rows = [
        [
            Text(">" if device.uuid == chosen else " ", "bold"),
            Text(device.index or device.uuid, "bold"),
            Text(device.name or "?"),
            Text(device.policy),
            Text(_quantum(device, short=True)),
            Text.assemble(memory_bar.bar(device, look.colors, cells), f" {_full(device)}"),
            Text(str(sum(client.position > 0 for client in device.clients) or ""), "yellow"),
            _holders(device, look),
        ]
        for device in devices
    ]
    return table(columns, rows, look.width)


def section(device: admin_pb2.Device, seen: admin_pb2.Timeline, look: Look, height: int) -> list[Text]:
    """At most so many lines; of clients and turns those that come first are shown."""
    head = list(_head(device, look))
    rows = clients(device, look)
    place = {client.id: number for number, client in enumerate(in_sorting(device, look.sorting, look.shares))}
    turns = [client for client in seen.clients if client.device_uuid == device.uuid]
    turns.sort(key=lambda client: place.get(client.id, len(place)))
    left = max(height - len(head), 0)
    count = len(rows)
    if count + len(turns) + 1 > left:
        count = min(count, max(left - min(len(turns) + 1, 4), min(left, 3)))
    shown = _some(rows, count, place.get(look.chosen, -1) + 1)
    strips = left - count
    lines = [
        timeline_views.client_bar(seen, client, look.width, look.colors.of(client.pid))
        for client in turns[: max(strips - 1, 0)]
    ]
    return [*head, *shown, *lines, *([timeline_views.axis(seen, look.width)] if lines else [])]


def _some(rows: list[Text], count: int, chosen: int) -> list[Text]:
    """So many lines of a table, its names and the chosen line among them; the last one says how many more there are."""
    if not count or count >= len(rows):
        return rows[:count]
    begin = max(1, min(chosen - count + 3, len(rows) - count + 2))
    more = Text(f"and {display.count(len(rows) - count + 1, 'client')} more", "dim")
    return [*[rows[0], *rows[begin : begin + count - 2]][: count - 1], more]


def _head(device: admin_pb2.Device, look: Look) -> Iterator[Text]:
    total = f", {display.size(device.total_bytes)}" if device.total_bytes else ""
    name = f"  {device.name or '?'}{total}  "
    yield Text.assemble((name_of(device), "bold"), name, (device.uuid, "dim"), no_wrap=True, overflow="ellipsis")
    yield _line("turns", Text.assemble(f"{device.policy}, {_quantum(device)}; ", _queue(device, look)))
    if sleepers := [_pid(client, look) for client in in_order(device.clients) if client.state == "asleep"]:
        yield _line("asleep", Text.assemble(f"{len(sleepers)} of {len(device.clients)}: ", Text(", ").join(sleepers)))
    yield _line("memory", memory_bar.bar(device, look.colors, max(look.width - _LABEL, 10)))
    yield _line("", memory_bar.legend(device, whole=look.width >= _WIDE))
    if device.reserve_bytes:
        yield _line("swap", _transfers(device))
    if device.HasField("mix"):
        yield _line("together", Text(mix_text(device.mix)))
    if gangs := _gangs(device):
        yield _line("gangs", Text(gangs))
    if device.awaited:
        pids = ", ".join(str(holder.pid or "?") for holder in device.awaited)
        yield _line("waits", Text(f"for holders of the scheduler before: {pids}", "yellow"))
    for client in device.clients:
        lacks = [memory_wait(client)] if client.memory_wait else []
        for notice in [*lacks, *([f"drain: {client.drain}"] if client.drain else []), *client.notices]:
            yield _line("notice", Text(f"{client.pid or '?'}: {notice}", "yellow"))


def _line(label: str, text: Text) -> Text:
    line = Text.assemble((f"{label:<{_LABEL}}", "dim"), text)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _quantum(device: admin_pb2.Device, *, short: bool = False) -> str:
    text = f"{device.quantum_seconds:g} s"
    if not device.HasField("quantum_left_seconds"):
        return text
    left = display.duration(device.quantum_left_seconds)
    return f"{text} ({left})" if short else f"{text}, {left} left"


def _full(device: admin_pb2.Device) -> str:
    of_device = memory.of(device)
    if not of_device.total_bytes:
        return "?"
    return f"{(of_device.clients_bytes + (of_device.foreign_bytes or 0)) / of_device.total_bytes:.0%}"


def _holders(device: admin_pb2.Device, look: Look) -> Text:
    text = Text(", ").join(_pid(client, look) for client in in_order(device.clients) if client.state in _HOLDING)
    return text if text.plain else Text("nobody", "dim")


def _queue(device: admin_pb2.Device, look: Look) -> Text:
    waiters = Text(", ").join(_pid(client, look) for client in in_order(device.clients) if client.position)
    text = Text.assemble("held by ", _holders(device, look))
    return Text.assemble(text, "; in line: ", waiters) if waiters.plain else text


def _pid(client: admin_pb2.Client, look: Look) -> Text:
    return Text(str(client.pid or "?"), look.colors.of(client.pid))


def _transfers(device: admin_pb2.Device) -> Text:
    """What is in host memory, and what is on the way now, and how fast; else what there was so far."""
    swapped = f"{display.size(sum(client.swap.swapped_bytes for client in device.clients))} swapped; "
    speed = device.swapping
    parts = []
    for client in device.clients:
        for word, left, rate in (
            ("in", client.swap.coming_bytes, speed.in_bytes_per_second),
            ("out", client.swap.leaving_bytes, speed.out_bytes_per_second),
        ):
            if left:
                at = f" at {display.rate(rate)}" if rate else ""
                parts.append(f"{client.pid or '?'} {word}, {display.size(left)} left{at}")
    if parts:
        return Text.assemble(swapped, ("; ".join(parts), "cyan"))
    so_far = ", ".join(
        f"{display.size(count)} {word}{f' at {display.rate(rate)}' if rate else ''}"
        for word, count, rate in (
            ("out", speed.out_bytes, speed.out_bytes_per_second),
            ("in", speed.in_bytes, speed.in_bytes_per_second),
        )
    )
    return Text.assemble(swapped, (f"so far {so_far}", "dim"))


def _gangs(device: admin_pb2.Device) -> str:
    gangs = {client.gang.name: client.gang for client in device.clients if client.HasField("gang")}
    return ", ".join(
        f"{gang.name} ({_come(gang)}{', which do not fit together' if gang.apart else ''})" for gang in gangs.values()
    )


def _come(gang: admin_pb2.Gang) -> str:
    if gang.expected:
        return f"{gang.come} of {gang.expected} have come"
    return display.count(gang.size, "client")


def clients(device: admin_pb2.Device, look: Look) -> list[Text]:
    """A line for each, under a line of names."""
    shown = in_sorting(device, look.sorting, look.shares)
    if not shown:
        return [Text("no clients", "dim")]
    columns = _columns(device, shown, look)
    rows = [[cell(client) for _column, cell in columns] for client in shown]
    return table([column for column, _cell in columns], rows, look.width)


def _columns(
    device: admin_pb2.Device, shown: Sequence[admin_pb2.Client], look: Look
) -> list[tuple[Column, Callable[[admin_pb2.Client], Text]]]:
    """Those in which something is to be said of one of the clients, each with what it says of a client."""
    swaps = any(client.HasField("swap") for client in shown)
    names, people = _names(shown, look)
    terms = {client.id: ", ".join(terms_words(client)) for client in shown}
    sign_of = signs(device)
    most = 40 if look.width >= _WIDE else 16
    columns: list[tuple[bool, Column, Callable[[admin_pb2.Client], Text]]] = [
        (
            True,
            Column(""),
            lambda client: Text.assemble(
                (sign_of[client.id], look.colors.of(client.pid)), (_marker(client, look), "bold")
            ),
        ),
        (True, Column("PID", right=True), lambda client: Text(str(client.pid or "?"))),
        (any(names.values()), Column("NAME", most=most), lambda client: Text(names[client.id])),
        (any(people.values()), Column("WHO", most=most), lambda client: Text(people[client.id])),
        (
            True,
            Column("STATE"),
            lambda client: Text(f"{client.state} {lasts(client)}".rstrip(), display.STATE_STYLES.get(client.state, "")),
        ),
        (
            True,
            Column("RESIDENT" if swaps else "MEMORY", right=True),
            lambda client: Text(display.size(memory.on_device(client)) if client.HasField("footprint_bytes") else "?"),
        ),
        (swaps, Column("SWAPPED", right=True), lambda client: Text(display.size(client.swap.swapped_bytes))),
        (
            any(client.swap.stored_bytes for client in shown),
            Column("STORED", right=True),
            lambda client: Text(display.size(client.swap.stored_bytes)),
        ),
        (
            any(client.swap.shared_bytes for client in shown),
            Column("SHARED", right=True),
            lambda client: Text(display.size(client.swap.shared_bytes)),
        ),
        (True, Column("TIME", right=True), lambda client: Text(_percent(look.shares, client))),
        (bool(look.used), Column("USED", right=True), lambda client: Text(_percent(look.used, client))),
        (
            True,
            Column("WAIT", right=True),
            lambda client: Text(display.duration(client.waiting_seconds) if client.position else "", "yellow"),
        ),
        (
            any(terms.values()),
            Column("TERMS", most=40 if look.width >= _WIDE else 12),
            lambda client: Text(terms[client.id]),
        ),
        (True, Column("COMMAND"), lambda client: Text(command(client))),
    ]
    marked = "MEMORY" if look.sorting == "RESIDENT" and not swaps else look.sorting
    return [
        (Column(column.name, column.right, column.most, column.name == marked), cell)
        for is_shown, column, cell in columns
        if is_shown
    ]


def _names(shown: Sequence[admin_pb2.Client], look: Look) -> tuple[dict[int, str], dict[int, str]]:
    """What the clients are called, and whose they are, as far as there is room; empty: not to be said."""
    names = {client.id: given(client.member_of) for client in shown}
    people = {client.id: who(client) for client in shown}
    if look.width >= _WIDE or not any(names.values()):
        return names, people
    # There is room for one column: pods have their places in it, and one user of all others is known.
    names = {client.id: client_name(client) for client in shown}
    people = {client.id: "" if place(client.identity) else who(client) for client in shown}
    return names, people if len({user for user in people.values() if user}) > 1 else dict.fromkeys(people, "")


def _percent(shares: Mapping[int, float], client: admin_pb2.Client) -> str:
    return f"{shares[client.id]:.0%}" if client.id in shares else ""


def _marker(client: admin_pb2.Client, look: Look) -> str:
    if not look.chosen:
        return ""
    return ">" if client.id == look.chosen else " "


def in_sorting(device: admin_pb2.Device, sorting: str, shares: Mapping[int, float]) -> list[admin_pb2.Client]:
    """The clients of a device in the order of their lines."""
    clients = in_order(device.clients)
    match sorting:
        case "PID":
            return sorted(clients, key=lambda each: each.pid)
        case "RESIDENT":
            return sorted(clients, key=memory.on_device, reverse=True)
        case "TIME":
            return sorted(clients, key=lambda each: shares.get(each.id, 0.0), reverse=True)
        case "WAIT":
            return sorted(clients, key=lambda each: each.waiting_seconds if each.position else 0.0, reverse=True)
        case _:
            return clients

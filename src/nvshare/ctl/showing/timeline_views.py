"""The timeline that a scheduler tells, as a page, as a trace and as bars in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.container_names import given
from nvshare.timeline import page as timeline_page
from nvshare.timeline import strips
from nvshare.timeline.chart import Bar, Chart, Row, Shape
from nvshare.timeline.trace import Trace

_SHAPES: Final = {
    "waiting": Shape.PALE,
    "holding": Shape.FULL,
    "leaving": Shape.FULL,
    "asleep": Shape.FAINT,
    "waking": Shape.PALE,
    "out": Shape.THIN,
    "in": Shape.THIN,
}
_LABEL: Final = 18
"""Characters that a row's name may have."""


def page(nodes: Mapping[str, admin_pb2.Timeline]) -> str:
    """An HTML document of one timeline, whose name is empty, or of several by the names of their nodes."""
    clients = display.count(sum(len(seen.clients) for seen in nodes.values()), "client")
    devices = display.count(sum(len(seen.devices) for seen in nodes.values()), "GPU")
    length = max((seen.seconds for seen in nodes.values()), default=0.0)
    text = f"The last {display.duration(length)}: {clients} on {devices}."
    note = (
        "Full bars are turns, pale ones waits, the palest sleep, thin ones memory that moved. "
        "Point at one for its figures."
    )
    charts = [
        Chart(
            _device_name(device, node),
            device.uuid,
            [Row(_label(client), _color(seen, client), list(_bars(client))) for client in _clients(seen, device)],
        )
        for node, seen in nodes.items()
        for device in seen.devices
    ]
    return timeline_page.html_page("Who had the GPU when", text, note, length, charts)


def _bars(client: admin_pb2.TimelineClient) -> Iterator[Bar]:
    who = ", ".join(filter(None, (f"pid {client.pid}", _name(client), client.command)))
    for span in client.spans:
        text = f"{who}: {_said(span)}, {span.begin:.3f} s to {span.end:.3f} s"
        yield Bar(span.begin, span.end, _SHAPES.get(span.what, Shape.PALE), text)


def _said(span: admin_pb2.TimelineSpan) -> str:
    took = span.end - span.begin
    if not span.bytes:
        return f"{span.what} for {took:.3f} s"
    rate = f", {display.rate(span.bytes / took)}" if took > 0 else ""
    return f"{display.size(span.bytes)} {span.what}{rate}"


def trace(nodes: Mapping[str, admin_pb2.Timeline]) -> str:
    """For https://ui.perfetto.dev, of one timeline or of several; see ``page``."""
    made = Trace()
    for node, seen in nodes.items():
        for device in seen.devices:
            process = f"{node}/{device.uuid}"
            made.add_device(process, _device_name(device, node))
            for client in _clients(seen, device):
                _add_client(made, process, client)
    return made.text()


def _add_client(made: Trace, process: str, client: admin_pb2.TimelineClient) -> None:
    for span in client.spans:
        track = "memory" if _SHAPES.get(span.what) is Shape.THIN else "lock"
        made.add_slice(
            process,
            f"{client.pid} {_name(client) or client.command}: {track}",
            f"{span.what} {display.size(span.bytes)}" if span.bytes else span.what,
            span.begin * 1e6,
            (span.end - span.begin) * 1e6,
            {"pid": client.pid, "client": client.id, "bytes": span.bytes},
        )


def bars(seen: admin_pb2.Timeline, width: int) -> RenderableType:
    """For each device a bar for each of its clients."""
    parts: list[RenderableType] = []
    for device in seen.devices:
        parts.append(Text.assemble((_device_name(device), "bold"), "  ", (device.uuid, "dim")))
        clients = _clients(seen, device)
        if not clients:
            parts += [Text(f"nobody in the last {display.duration(seen.seconds)}", style="dim"), Text()]
            continue
        parts += [client_bar(seen, client, width, strips.color(_color(seen, client))) for client in clients]
        parts += [axis(seen, width), Text()]
    return Group(*parts)


def client_bar(seen: admin_pb2.Timeline, client: admin_pb2.TimelineClient, width: int, color: str) -> Text:
    """One client's turns as a line."""
    held, moved = (
        [(span.begin, span.end) for span in client.spans if _SHAPES.get(span.what) is shape]
        for shape in (Shape.FULL, Shape.THIN)
    )
    label = f"{_label(client)[: _LABEL - 1]:<{_LABEL}}"
    return strips.strip(label, held, moved, seen.seconds, seen.seconds, width, color, _LABEL)


def axis(seen: admin_pb2.Timeline, width: int) -> Text:
    """The seconds under such lines."""
    return strips.axis(seen.seconds, width, _LABEL)


def _clients(seen: admin_pb2.Timeline, device: admin_pb2.TimelineDevice) -> list[admin_pb2.TimelineClient]:
    return [client for client in seen.clients if client.device_uuid == device.uuid]


def _color(seen: admin_pb2.Timeline, client: admin_pb2.TimelineClient) -> int:
    """One for each process: a process on two devices has the same on both."""
    return list(dict.fromkeys(each.pid for each in seen.clients)).index(client.pid)


def _device_name(device: admin_pb2.TimelineDevice, node: str = "") -> str:
    name = f"{node} GPU {device.index}".strip() if device.index else f"{node} GPU".strip()
    return ", ".join(
        filter(None, (f"{name}: {device.name}" if device.name else name, display.size(device.total_bytes)))
    )


def _name(client: admin_pb2.TimelineClient) -> str:
    """The pod and the container, or the name that somebody gave; empty: neither."""
    _namespace, _, in_pod = client.member_of.partition("/")
    return given(client.member_of) if "@" in client.member_of else in_pod


def _label(client: admin_pb2.TimelineClient) -> str:
    """The pid, and the name; else what is telling of the command: the program, and what it runs."""
    if name := _name(client):
        return f"{client.pid} {name}"
    words = [word.rsplit("/", 1)[-1] for word in client.command.split() if not word.startswith("-")][:2]
    return f"{client.pid} {' '.join(words)}"

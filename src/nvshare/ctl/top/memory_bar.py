"""A device's memory as a bar: each client's, what can't be swapped, others', the reserve, and what is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.ctl.showing import memory
from nvshare.ctl.top.figures import Colors, signs

_PINNED = ("▒", "yellow")
_OTHERS = ("▚", "bright_black")
_RESERVE = ("╌", "dim")
_FREE = ("░", "dim")


@dataclass(frozen=True, slots=True)
class _Part:
    bytes: int
    sign: str
    style: str


def bar(device: admin_pb2.Device, colors: Colors, cells: int) -> Text:
    """So many signs; the parts have the order of the legend."""
    sign_of = signs(device)
    parts = [
        _Part(memory.on_device(client), sign_of[client.id], colors.of(client.pid))
        for client in sorted(device.clients, key=lambda each: each.id)
    ]
    parts += [
        _Part(sum(client.pinned_bytes for client in device.clients), *_PINNED),
        _Part(device.foreign_bytes, *_OTHERS),
    ]
    used = sum(part.bytes for part in parts)
    total = max(device.total_bytes, used, 1)
    parts.append(_Part(min(device.reserve_bytes, total - used), *_RESERVE))
    return _drawn(parts, total, cells)


def legend(device: admin_pb2.Device, *, whole: bool) -> Text:
    """The parts in figures, without those that are nothing, and without the reserve if not ``whole``."""
    of_device = memory.of(device)
    pinned = sum(client.pinned_bytes for client in device.clients)
    free = of_device.free_bytes
    left = 0 if free is None else max(free - device.reserve_bytes, 0)
    figures = [
        ("", "clients", of_device.clients_bytes - pinned),
        (_PINNED[0], "pinned", pinned),
        (_OTHERS[0], "others", device.foreign_bytes),
        (_RESERVE[0], "reserve", device.reserve_bytes if whole else 0),
        (_FREE[0], "free", left),
    ]
    return Text(
        ", ".join(f"{f'{sign} {name}'.strip()} {display.size(count)}" for sign, name, count in figures if count)
    )


def _drawn(parts: Sequence[_Part], total: int, cells: int) -> Text:
    """Each part ends at its nearest cell, so that no roundings add up."""
    text, so_far, at = Text(no_wrap=True), 0, 0
    for part in parts:
        so_far += part.bytes
        end = min(round(so_far / total * cells), cells)
        text.append(part.sign * (end - at), style=part.style)
        at = end
    text.append(_FREE[0] * (cells - at), style=_FREE[1])
    return text

"""What the screen says of a client beyond its status: its color, its user, its share of the device's time of late."""

from __future__ import annotations

import pwd

from nvshare.admin import admin_pb2
from nvshare.ctl.showing.status_words import place, short_paths
from nvshare.timeline import strips

_TURNS = ("holding", "leaving")
_SIGNS = "█▓"


class Colors:
    """One for each process, the same for as long as the screen is there."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def of(self, pid: int) -> str:
        """As rich knows it."""
        return strips.color(self._number(pid))

    def _number(self, pid: int) -> int:
        return self._numbers.setdefault(pid, len(self._numbers))


def signs(device: admin_pb2.Device) -> dict[int, str]:
    """What stands for each client's memory in a bar, by its id: neighbours differ without colors, too."""
    ids = sorted(client.id for client in device.clients)
    return {number: _SIGNS[place % len(_SIGNS)] for place, number in enumerate(ids)}


def shares(seen: admin_pb2.Timeline, up_seconds: float) -> dict[int, float]:
    """By the clients' ids: which share of the timeline they had their device; of less where it is older than all."""
    begin = max(0.0, seen.seconds - up_seconds)
    length = max(seen.seconds - begin, 1e-9)
    return {
        client.id: sum(max(0.0, span.end - max(span.begin, begin)) for span in client.spans if span.what in _TURNS)
        / length
        for client in seen.clients
    }


def shares_between(before: admin_pb2.Status, after: admin_pb2.Status) -> dict[int, float]:
    """By the clients' ids: which share of the time between two answers of one scheduler they had their device."""
    length = after.uptime_seconds - before.uptime_seconds
    if length <= 0 or before.scheduler_pid != after.scheduler_pid:
        return {}
    held = {client.id: client.held_seconds for device in before.devices for client in device.clients}
    return {
        client.id: min(max(client.held_seconds - held[client.id], 0.0) / length, 1.0)
        for device in after.devices
        for client in device.clients
        if client.id in held
    }


def who(client: admin_pb2.Client) -> str:
    """Its pod, else the user that it runs as; empty where neither is known."""
    if pod := place(client.identity):
        return pod
    uid = client.member_of.rpartition("@")[2]
    return _user(int(uid)) if uid.isdecimal() else ""


def command(client: admin_pb2.Client) -> str:
    """In few words."""
    return short_paths(client.command) or "?"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

"""Whether what a person wants to sleep does, and what does not that is to wake."""

from __future__ import annotations

from collections.abc import Iterable

import grpc

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.container_names import PROCESS

PATIENCE_SECONDS = 60.0
"""Much memory takes seconds to leave, and a program may be in the middle of its work."""


def until(scheduler: AdminStub, name: str, *, asleep: bool, asked: admin_pb2.Status) -> str:
    """Waits until all processes of this name are asleep, or none is; why that is not so, empty: it is.

    ``asked``: the answer to what was asked for. A reason to stay awake that is new since then ends the waiting.
    """
    latest, former = asked, _reasons(named(name, asked))
    try:
        for latest in scheduler.WatchStatus(admin_pb2.WatchStatusRequest(), timeout=PATIENCE_SECONDS):
            clients = named(name, latest)
            if not clients:
                return f"{name} has ended"
            if not _others(clients, asleep=asleep):
                return ""
            reasons = _reasons(clients)
            if fresh := {pid: reason for pid, reason in reasons.items() if asleep and former.get(pid) != reason}:
                return _listed(name, asleep, (f"pid {pid}: {reason}" for pid, reason in fresh.items()))
            former = reasons
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
    others = _others(named(name, latest), asleep=asleep)
    after = f" after {display.duration(PATIENCE_SECONDS)}"
    return _listed(name, asleep, (f"pid {client.pid} is {client.state}{after}" for client in others))


def named(name: str, status: admin_pb2.Status) -> list[admin_pb2.Client]:
    """The clients that a name stands for: a container, with or without whose it is, or ``pid:PID``."""
    clients = [client for device in status.devices for client in device.clients]
    if name.startswith(PROCESS) and (found := [each for each in clients if f"{PROCESS}{each.pid}" == name]):
        return found
    return [each for each in clients if name in (each.member_of, each.member_of.rpartition("@")[0])]


def _others(clients: Iterable[admin_pb2.Client], *, asleep: bool) -> list[admin_pb2.Client]:
    """Those that are not as they should be."""
    return [each for each in clients if (each.state != "asleep" if asleep else each.state in ("asleep", "waking"))]


def _reasons(clients: Iterable[admin_pb2.Client]) -> dict[int, str]:
    return {client.pid: client.awake_reason for client in clients if client.awake_reason}


def _listed(name: str, asleep: bool, what: Iterable[str]) -> str:
    return f"{name} is not {'asleep' if asleep else 'awake'}: {'; '.join(dict.fromkeys(what))}"

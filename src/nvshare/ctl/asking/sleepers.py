"""Whether what a person wants to sleep falls asleep, and what is to wake wakes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import grpc

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.container_names import PROCESS
from nvshare.process_state import remedy

PATIENCE_SECONDS = 60.0
"""Much memory takes seconds to leave, and to wake a program may have to wait for room."""
BUSY_SECONDS = 5.0
"""One that is alone on its GPU keeps the lock until it has been idle for a second: before, it is not seen."""

_ENDED = "it has ended"


def not_asleep(scheduler: AdminStub, name: str, asked: admin_pb2.Status, since: float) -> str:
    """Waits until all processes of this name are asleep; why they are not, empty: they are.

    ``asked``: the answer to what was asked for, ``since`` then (``time.monotonic``). One that is needed meanwhile, or
    can't, is not waited for.
    """
    others = named(name, asked)
    before = {client.pid: client.awake_reason for client in others}
    for seconds, is_late in ((since + BUSY_SECONDS - time.monotonic(), False), (PATIENCE_SECONDS, True)):
        for latest in _watched(scheduler, seconds):
            clients = named(name, latest)
            others = [client for client in clients if not _is_asleep(client)]
            if not others:
                return "" if clients else _ENDED
            if reasons := {client.pid: why for client in others if (why := _why_not(client, before, is_late=is_late))}:
                return _listed(reasons)
            # Whatever is said after one was being put to sleep is news.
            before |= {client.pid: "" for client in others if client.state == "asleep"}
    late = f"its memory has not left within {display.duration(PATIENCE_SECONDS)}"
    return _listed({client.pid: client.awake_reason or late for client in others})


def not_awake(scheduler: AdminStub, name: str, asked: admin_pb2.Status) -> str:
    """Waits until no process of this name is asleep; why one is, empty: none is."""
    others = named(name, asked)
    for latest in _watched(scheduler, PATIENCE_SECONDS):
        clients = named(name, latest)
        others = [client for client in clients if client.state in ("asleep", "waking")]
        if not others:
            return "" if clients else _ENDED
        if reasons := {client.pid: why for client in others if (why := _why_stopped(client))}:
            return _listed(reasons)
    late = f"there was no room for it within {display.duration(PATIENCE_SECONDS)}"
    return _listed({client.pid: late for client in others})


def named(name: str, status: admin_pb2.Status) -> list[admin_pb2.Client]:
    """The clients that a name stands for: a container, with or without whose it is, or ``pid:PID``."""
    clients = [client for device in status.devices for client in device.clients]
    if name.startswith(PROCESS) and (found := [each for each in clients if f"{PROCESS}{each.pid}" == name]):
        return found
    return [each for each in clients if name in (each.member_of, each.member_of.rpartition("@")[0])]


def _watched(scheduler: AdminStub, seconds: float) -> Iterator[admin_pb2.Status]:
    """What the scheduler tells for so long: how it is, and every change."""
    try:
        yield from scheduler.WatchStatus(admin_pb2.WatchStatusRequest(), timeout=max(0.0, seconds))
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise


def _is_asleep(client: admin_pb2.Client) -> bool:
    """One that is being put to sleep still has its context."""
    return client.state == "asleep" and not client.pinned_bytes


def _why_not(client: admin_pb2.Client, before: Mapping[int, str], *, is_late: bool) -> str:
    """Why it will not fall asleep now; empty: it may. ``before``: what was said of that before, by pid.

    ``is_late``: who was idle when it was asked to sleep shows it by now.
    """
    if stopped := _why_stopped(client):
        return stopped
    match client.state:
        case "asleep":
            return ""
        case "idle":
            return client.awake_reason if client.awake_reason != before.get(client.pid, "") else ""
        case "waking":
            return "it is waking"
        case _:
            return f"it is {client.state}, and was not idle for {display.duration(BUSY_SECONDS)}" if is_late else ""


def _why_stopped(client: admin_pb2.Client) -> str:
    """Why it does nothing of what it is told; empty: as far as the scheduler has looked, it is not stopped."""
    stopped = remedy(client.pid)
    return f"it is {stopped}" if stopped in client.notices else ""


def _listed(reasons: Mapping[int, str]) -> str:
    return "; ".join(f"pid {pid}: {reason}" for pid, reason in reasons.items())

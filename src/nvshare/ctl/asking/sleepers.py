"""Whether what a person wants to sleep falls asleep, and what is to wake wakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import grpc

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.container_names import PROCESS

PATIENCE_SECONDS = 60.0
"""Much memory takes seconds to leave, and to wake a program may have to wait for room."""


def not_asleep(scheduler: AdminStub, name: str, asked: admin_pb2.Status) -> str:
    """Waits until all processes of this name are asleep; why they are not, empty: they are.

    ``asked``: the answer to what was asked for. One that is needed meanwhile, or can't, is not waited for.
    """
    others = named(name, asked)
    before = {client.pid: client.awake_reason for client in others}
    for latest in _watched(scheduler):
        clients = named(name, latest)
        others = [client for client in clients if not _is_asleep(client)]
        if not others:
            return "" if clients else f"{name} has ended"
        if reasons := {client.pid: reason for client in others if (reason := _why_not(client, before))}:
            return f"{name} is not asleep: {_listed(reasons)}"
        # Whatever is said after one was being put to sleep is news.
        before |= {client.pid: "" for client in others if client.state == "asleep"}
    late = f"its memory has not left within {display.duration(PATIENCE_SECONDS)}"
    return f"{name} is not asleep: {_listed({client.pid: client.awake_reason or late for client in others})}"


def not_awake(scheduler: AdminStub, name: str, asked: admin_pb2.Status) -> str:
    """Waits until no process of this name is asleep; why one is, empty: none is."""
    others = named(name, asked)
    for latest in _watched(scheduler):
        clients = named(name, latest)
        others = [client for client in clients if client.state in ("asleep", "waking")]
        if not others:
            return "" if clients else f"{name} has ended"
    late = f"there was no room for it within {display.duration(PATIENCE_SECONDS)}"
    return f"{name} is not awake: {_listed({client.pid: late for client in others})}"


def named(name: str, status: admin_pb2.Status) -> list[admin_pb2.Client]:
    """The clients that a name stands for: a container, with or without whose it is, or ``pid:PID``."""
    clients = [client for device in status.devices for client in device.clients]
    if name.startswith(PROCESS) and (found := [each for each in clients if f"{PROCESS}{each.pid}" == name]):
        return found
    return [each for each in clients if name in (each.member_of, each.member_of.rpartition("@")[0])]


def _watched(scheduler: AdminStub) -> Iterator[admin_pb2.Status]:
    """What the scheduler tells, as long as one has patience."""
    try:
        yield from scheduler.WatchStatus(admin_pb2.WatchStatusRequest(), timeout=PATIENCE_SECONDS)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise


def _is_asleep(client: admin_pb2.Client) -> bool:
    """One that is being put to sleep still has its context."""
    return client.state == "asleep" and not client.pinned_bytes


def _why_not(client: admin_pb2.Client, before: Mapping[int, str]) -> str:
    """Why it will not fall asleep now; empty: it may. ``before``: what was said of that before, by pid."""
    if client.state not in ("idle", "asleep"):
        return f"it is {client.state}"
    fresh = client.state == "idle" and client.awake_reason != before.get(client.pid, "")
    return client.awake_reason if fresh else ""


def _listed(reasons: Mapping[int, str]) -> str:
    return "; ".join(f"pid {pid}: {reason}" for pid, reason in reasons.items())

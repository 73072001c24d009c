"""What the operator wants to sleep, from a name to processes, and in a real scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.scheduler.api.sleep_commands import CantSleepError, SleepCommands
from tests.scheduler.wire_client import Scheduler

Serve = Callable[..., Scheduler]


class Fake:
    """Notes what is asked for; clients of some processes can't sleep."""

    def __init__(self, **reasons: str) -> None:
        self.asked: list[tuple[str, int]] = []
        self._reasons = {int(name.removeprefix("client_")): reason for name, reason in reasons.items()}

    def sleep(self, client: int) -> str:
        self.asked.append(("sleep", client))
        return self._reasons.get(client, "")

    def awake_reason(self, client: int) -> str:
        return self._reasons.get(client, "")

    def wake(self, client: int) -> None:
        self.asked.append(("wake", client))


def commands(fake: Fake) -> SleepCommands:
    """Of two processes, of which the first one has two devices."""
    clients: dict[int, Any] = {number: SimpleNamespace(pid=pid) for number, pid in ((1, 71), (2, 71), (3, 72))}
    return SleepCommands(fake, clients, {"train": (1, 2, 3), "pid:72": (3,)}.__getitem__)


def test_each_process_once() -> None:
    """By any of its clients."""
    fake = Fake()
    commands(fake).sleep("train")
    commands(fake).wake("pid:72")
    assert fake.asked == [("sleep", 2), ("sleep", 3), ("wake", 3)]


def test_the_others_sleep() -> None:
    """What is said names the process and the reason, and nothing of those that sleep."""
    fake = Fake(client_2="it is holding")
    with pytest.raises(CantSleepError, match=r"^train can't sleep: pid 71: it is holding$"):
        commands(fake).sleep("train")
    assert fake.asked == [("sleep", 2), ("sleep", 3)]


def test_what_a_scheduler_says(serve: Serve) -> None:
    """Of a program that does not swap, of one that it does not know, and on the socket for all users."""
    scheduler = serve()
    scheduler.client().register()
    name = f"pid:{os.getpid()}"
    awake = f"{name} can't sleep: pid {os.getpid()}: its library does not know how"
    refused(scheduler.admin.Sleep, name, grpc.StatusCode.FAILED_PRECONDITION, awake)
    scheduler.admin.Wake(admin_pb2.SleepRequest(name=name), timeout=20)
    unknown = "container 'nobody' is unknown; known containers: "
    for call in (scheduler.admin.Sleep, scheduler.admin.Wake):
        refused(call, "nobody", grpc.StatusCode.NOT_FOUND, unknown)
    with grpc.insecure_channel(f"unix:{scheduler.run_dir.status_socket}") as channel:
        public = admin_pb2_grpc.AdminStub(channel)
        for call in (public.Sleep, public.Wake):
            refused(call, name, grpc.StatusCode.PERMISSION_DENIED, "this socket only shows the status")
    [client] = scheduler.status().devices[0].clients
    assert (client.awake_reason, client.sleeps, client.asleep_seconds) == ("its library does not know how", 0, 0.0)


def refused(call: Callable[..., admin_pb2.Status], name: str, code: grpc.StatusCode, text: str) -> None:
    """What is said begins so."""
    with pytest.raises(grpc.RpcError) as refusal:
        call(admin_pb2.SleepRequest(name=name), timeout=20)
    assert refusal.value.code() is code
    assert refusal.value.details().startswith(text)

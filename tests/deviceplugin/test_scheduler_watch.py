"""The scheduler's status, and the load in it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from structlog.testing import CapturingLogger

from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminServicer, add_AdminServicer_to_server
from nvshare.deviceplugin.answers.preference import Load
from nvshare.deviceplugin.scheduler_watch import SchedulerWatch, ending_of, loads_of
from tests.polling import until

Context = grpc.aio.ServicerContext[object, object]


def client(number: int, state: str, pod: str = "") -> admin_pb2.Client:
    return admin_pb2.Client(id=number, state=state, identity=admin_pb2.Identity(pod=pod, container=pod and "main"))


STATUS = admin_pb2.Status(
    devices=[
        admin_pb2.Device(
            uuid="GPU-a",
            clients=[
                client(1, "holding", "p"),
                client(2, "waiting", "p"),
                client(3, "unresponsive", "q"),
                client(4, "idle"),
                client(5, "idle"),
            ],
        ),
        admin_pb2.Device(uuid="GPU-b"),
    ]
)


class FakeAdmin(AdminServicer):
    """A scheduler that answers this status, while it is told to."""

    def __init__(self) -> None:
        self.status = STATUS
        self.asked = 0
        self.silent = False

    async def GetStatus(self, request: admin_pb2.GetStatusRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        return self.status

    async def WatchStatus(  # noqa: N802
        self, request: admin_pb2.WatchStatusRequest, context: Context
    ) -> AsyncIterator[admin_pb2.Status]:
        yield STATUS

    async def SetQuantum(self, request: admin_pb2.SetQuantumRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return STATUS

    async def SetPolicy(self, request: admin_pb2.SetPolicyRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return STATUS


@pytest.fixture
async def socket() -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="admin-") as folder:
        yield Path(folder) / "admin.sock"


async def serve(socket: Path) -> tuple[grpc.aio.Server, FakeAdmin]:
    server, admin = grpc.aio.server(), FakeAdmin()
    add_AdminServicer_to_server(admin, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    return server, admin


def test_what_counts() -> None:
    """Busy are clients that hold or want the lock; a container's clients are one container, others one each."""
    assert loads_of(STATUS) == {"GPU-a": Load(busy=3, containers=4), "GPU-b": Load(0, 0)}


def allocation(pod: str, *device_ids: str, ending: bool) -> admin_pb2.Allocation:
    return admin_pb2.Allocation(
        identity=admin_pb2.Identity(pod=pod, container="main"), virtual_device_ids=device_ids, ending=ending
    )


def test_who_ends_is_no_load() -> None:
    """Neither by its clients, whatever they do still, nor by what it holds; the pods beside it are."""
    status = admin_pb2.Status()
    status.CopyFrom(STATUS)
    status.devices[0].allocations.extend(
        [allocation("p", "GPU-a__1", "GPU-a__2", ending=True), allocation("q", "GPU-a__3", ending=False)]
    )
    assert loads_of(status)["GPU-a"] == Load(busy=1, containers=3)
    assert ending_of(status) == {"GPU-a__1", "GPU-a__2"}


async def test_read_in_the_background(socket: Path) -> None:
    """Nothing is known at first, then what the scheduler says, and nothing again some seconds after it went silent."""
    server, admin = await serve(socket)
    watch = SchedulerWatch(socket, CapturingLogger(), poll_seconds=0.02)
    assert watch.fresh() is None
    assert watch.ending() == frozenset()
    task = asyncio.create_task(watch.run())
    await until(lambda: watch.loads() == loads_of(STATUS), "the status is known")
    await until(lambda: admin.asked > 3, "it is read again")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.stop(None)


async def test_old_news_are_no_news(socket: Path) -> None:
    """A scheduler that does not answer any more: after a while its last status does not count."""
    server, admin = await serve(socket)
    watch = SchedulerWatch(socket, CapturingLogger(), poll_seconds=0.02, fresh_seconds=0.5)
    task = asyncio.create_task(watch.run())
    await until(lambda: watch.fresh() is not None, "the status is known")
    admin.silent = True
    await until(lambda: watch.fresh() is None, "the status is forgotten")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.stop(None)


async def test_no_scheduler(socket: Path) -> None:
    """It is said once, and again when the scheduler is back."""
    log = CapturingLogger()
    watch = SchedulerWatch(socket, log, poll_seconds=0.02)
    task = asyncio.create_task(watch.run())
    await until(lambda: log.calls, "it is said")
    assert watch.fresh() is None
    server, _ = await serve(socket)
    await until(lambda: watch.fresh() is not None, "the status is known", timeout=20)
    await until(lambda: len(log.calls) == 2, "it is said that it is back")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.stop(None)

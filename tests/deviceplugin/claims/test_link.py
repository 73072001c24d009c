"""The scheduler is told which claims are prepared, whatever happens to it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminServicer, add_AdminServicer_to_server
from nvshare.deviceplugin.claims import link as link_module
from nvshare.deviceplugin.claims.link import ClaimsLink
from nvshare.unix_sockets import grpc_address
from tests.deviceplugin.claims.bench import GPU_A, NodeOfClaims, claim
from tests.polling import until

Context = grpc.aio.ServicerContext[object, object]


class Scheduler(AdminServicer):
    """Takes what it is told, or refuses it."""

    def __init__(self) -> None:
        self.told: list[admin_pb2.SetClaimsRequest] = []
        self.refusal = ""

    async def SetClaims(  # noqa: N802
        self, request: admin_pb2.SetClaimsRequest, context: Context
    ) -> admin_pb2.SetClaimsResponse:
        self.told.append(request)
        if self.refusal:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refusal)
        return admin_pb2.SetClaimsResponse()


@pytest.fixture
def socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="link-") as folder:
        yield Path(folder) / "admin.sock"


async def serve(socket: Path, scheduler: AdminServicer) -> grpc.aio.Server:
    server = grpc.aio.server()
    add_AdminServicer_to_server(scheduler, server)
    server.add_insecure_port(grpc_address(socket))
    await server.start()
    return server


async def test_told_again_and_again(socket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once when claims change, and now and then: a scheduler that restarted, or was away, knows them soon."""
    node = NodeOfClaims(tmp_path)
    node.api.add(claim("u"))
    claims = node.start()
    link = ClaimsLink(socket, claims, claims._log)
    monkeypatch.setattr(link_module, "_TELL_SECONDS", 0.05)
    assert link.problem
    task = asyncio.create_task(link.run())
    await until(lambda: any("does not take claims" in line for line in node.logged), "it is said that nobody is there")
    scheduler = Scheduler()
    server = await serve(socket, scheduler)
    await until(lambda: not link.problem, "the scheduler is told")
    assert scheduler.told[-1] == admin_pb2.SetClaimsRequest()
    monkeypatch.setattr(link_module, "_TELL_SECONDS", 60.0)
    await claims.prepare("u", "team", "share")
    await until(lambda: scheduler.told[-1].claims, "it is told of the claim at once")
    monkeypatch.setattr(link_module, "_TELL_SECONDS", 0.05)
    await claims.unprepare("u")
    await until(lambda: not scheduler.told[-1].claims, "it is told that there is none")
    count = len(scheduler.told)
    await until(lambda: len(scheduler.told) > count + 1, "it is told again")
    await claims.prepare("u", "team", "share")
    await server.stop(None)
    await until(lambda: link.problem, "the scheduler is gone")
    scheduler = Scheduler()
    server = await serve(socket, scheduler)
    await until(lambda: scheduler.told, "the next one is told")
    assert [each.uid for each in scheduler.told[0].claims] == ["u"]
    node.own[GPU_A] = 1 << 30
    await until(
        lambda: scheduler.told[-1].claims[0].devices[0].memory_request_bytes == 1 << 30, "a GPU's memory counts"
    )
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.stop(None)


@pytest.mark.parametrize(
    ("scheduler", "problem"),
    [(AdminServicer(), "it is of an older version, which knows no claims"), (Scheduler(), "no such GPU")],
)
async def test_one_that_does_not_take_it(socket: Path, tmp_path: Path, scheduler: AdminServicer, problem: str) -> None:
    """It is said why: then no limit holds."""
    if isinstance(scheduler, Scheduler):
        scheduler.refusal = "no such GPU"
    node = NodeOfClaims(tmp_path)
    claims = node.start()
    link = ClaimsLink(socket, claims, claims._log)
    server = await serve(socket, scheduler)
    task = asyncio.create_task(link.run())
    await until(lambda: link.problem == problem, "the problem is named")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.stop(None)

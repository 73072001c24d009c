"""A node with a driver in tasks of the test: NVML as a test sets it, a scheduler, and an API server beside it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.deviceplugin.changeover import Mode
from nvshare.deviceplugin.driver import Driver
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.host.install import Library
from nvshare.deviceplugin.plugin import Plugin
from nvshare.deviceplugin.settings.configuration import AllocationMode, Configuration
from nvshare.kubernetes.account import Account
from nvshare.log import Log, LogLines
from nvshare.paths import RunDir
from tests.deviceplugin.fake_nvml import FakeNvml
from tests.kubernetes.documents import NODE
from tests.kubernetes.fake_api import Cluster

GIB = 1 << 30
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"


@dataclass
class Scheduler(admin_pb2_grpc.AdminServicer):
    """One that tells what a test sets, and keeps what it was told of claims last."""

    status: admin_pb2.Status = field(default_factory=admin_pb2.Status)
    claims: list[admin_pb2.Claim] = field(default_factory=list)

    def has(self, *uuids: str, gib: int = 16) -> None:
        """These GPUs, of which nobody has anything; 1 GiB each is taken by reserve and contexts."""
        devices = [
            admin_pb2.Device(uuid=uuid, total_bytes=gib * GIB, swap_reserve_bytes=GIB, foreign_bytes=0)
            for uuid in uuids
        ]
        self.status = admin_pb2.Status(devices=devices, knows_allocations=True)

    async def GetStatus(self, request: Any, context: Any) -> admin_pb2.Status:  # noqa: N802
        return self.status

    async def SetClaims(  # noqa: N802
        self, request: admin_pb2.SetClaimsRequest, context: Any
    ) -> admin_pb2.SetClaimsResponse:
        self.claims = list(request.claims)
        return admin_pb2.SetClaimsResponse()


class Node:
    """Its folders, its scheduler, and what runs on it."""

    def __init__(self, root: Path, account: Account, cluster: Cluster, log: Log, lines: LogLines) -> None:
        self.root = root
        self.cluster = cluster
        self.nvml = FakeNvml("GPU-a", "GPU-b")
        self.scheduler = Scheduler()
        self.scheduler.has("GPU-a", "GPU-b")
        self._account = account
        self.has_token = True
        """Whether the plugin has one, too."""
        self._log = log
        self._lines = lines
        self._server = grpc.aio.server()
        self._running: dict[Mode, asyncio.Task[None]] = {}
        for folder in ("device-plugins", "lib", "cdi"):
            (root / folder).mkdir()
        cluster.objects[CLAIMS] = {}

    @property
    def records(self) -> list[str]:
        """The claims that are prepared, by their uids."""
        folder = self.root / "plugins" / "gpu.nvshare.com" / "claims"
        return sorted(file.stem for file in folder.glob("*.json"))

    async def start_scheduler(self) -> None:
        run_dir = RunDir(self.root / "run")
        for socket in (run_dir.admin_socket, run_dir.client_socket):
            socket.parent.mkdir(parents=True, exist_ok=True)
            self._server.add_insecure_port(f"unix:{socket}")
        admin_pb2_grpc.add_AdminServicer_to_server(self.scheduler, self._server)
        await self._server.start()

    def make(self, allocation: AllocationMode, **settings: Any) -> Mode:
        """A driver or a plugin that does not run yet."""
        configuration = Configuration(
            allocation=allocation,
            node_name=NODE,
            kubelet_dir=self.root / "device-plugins",
            library_dir=self.root / "lib",
            run_dir=self.root / "run",
            cdi_spec_dir=self.root / "cdi",
            **settings,
        )
        given = (configuration, Selection(), Library("1", b"library"), self.nvml.open)
        if allocation is AllocationMode.PLUGIN:
            account = self._account if self.has_token else None
            return Plugin(*given, "the plugin", account, self._log, self._lines)
        return Driver(*given, "the driver", self._account, self._log, self._lines)

    def start(self, allocation: AllocationMode = AllocationMode.DRA, **settings: Any) -> Mode:
        """One that runs until the test ends, or ``end``."""
        made = self.make(allocation, **settings)
        self._running[made] = asyncio.create_task(made.run())
        return made

    async def end(self, mode: Mode, *, for_good: bool = False) -> None:
        """In order."""
        mode.stop(for_good=for_good)
        async with asyncio.timeout(20):
            await self._running.pop(mode)

    async def kill(self, mode: Mode) -> None:
        """As when its process is killed, but that its locks are free."""
        task = self._running.pop(mode)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def stop(self) -> None:
        """Everything, after the test."""
        for mode in tuple(self._running):
            await self.end(mode)
        await self._server.stop(None)

    def devices(self) -> dict[str, Any]:
        """Those of the slice by their names; empty without a slice."""
        return {each["name"]: each for one in self.cluster.slices() for each in one["spec"]["devices"]}

    def memory(self) -> dict[str, str]:
        """What can be claimed of each."""
        return {name: each["capacity"]["memory"]["value"] for name, each in self.devices().items()}

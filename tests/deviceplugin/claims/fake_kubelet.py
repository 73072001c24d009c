"""kubelet's side of dynamic resource allocation, with the behaviour that its source (1.36) has."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from nvshare.kubelet import dra_v1_pb2, drahealth_v1alpha1_pb2, pluginregistration_v1_pb2
from nvshare.kubelet.dra_v1_pb2_grpc import DRAPluginStub
from nvshare.kubelet.drahealth_v1alpha1_pb2_grpc import DRAResourceHealthStub
from nvshare.kubelet.pluginregistration_v1_pb2_grpc import RegistrationStub
from nvshare.unix_sockets import grpc_address

_LOOK_SECONDS = 0.01
_INFO_SECONDS = 1.0
_HEALTH_RETRY_SECONDS = 0.05
"""5 in kubelet."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One that is registered."""

    info: pluginregistration_v1_pb2.PluginInfo
    channel: grpc.aio.Channel
    health: asyncio.Task[None]


class FakeKubelet:
    """One kubelet at a time beside its folders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.registry = root / "plugins_registry"
        self.registry.mkdir(parents=True)
        self.drivers: dict[Path, Driver] = {}
        """By the registration socket, the newest last."""
        self.refusal = ""
        """What it tells drivers instead of taking them."""
        self.health: dict[tuple[str, str], drahealth_v1alpha1_pb2.DeviceHealth] = {}
        """By pool and device, what it was told last."""
        self.told_health = 0
        """How often."""
        self.ended_streams: list[grpc.StatusCode] = []
        """What streams of health ended with."""
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """It begins to look for drivers; those that are there already register, too."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """It ends, and forgets who was there."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for socket in tuple(self.drivers):
            await self._forget(socket)

    async def prepare(self, *claims: dra_v1_pb2.Claim) -> dict[str, dra_v1_pb2.NodePrepareResourceResponse]:
        """Asks the newest driver, and checks that it answers for each claim."""
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=claims)
        answer = await self._stub().NodePrepareResources(request, timeout=45)
        assert set(answer.claims) == {claim.uid for claim in claims}
        return dict(answer.claims)

    async def unprepare(self, *claims: dra_v1_pb2.Claim) -> dict[str, str]:
        """The same; its errors."""
        request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=claims)
        answer = await self._stub().NodeUnprepareResources(request, timeout=45)
        assert set(answer.claims) == {claim.uid for claim in claims}
        return {uid: each.error for uid, each in answer.claims.items()}

    def _stub(self) -> DRAPluginStub:
        return DRAPluginStub([*self.drivers.values()][-1].channel)

    async def _watch(self) -> None:
        while True:
            found = {path for path in self.registry.iterdir() if path.is_socket() and not path.name.startswith(".")}
            for socket in self.drivers.keys() - found:
                await self._forget(socket)
            for socket in found - self.drivers.keys():
                await self._register(socket)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _register(self, socket: Path) -> None:
        async with grpc.aio.insecure_channel(grpc_address(socket)) as channel:
            stub = RegistrationStub(channel)
            try:
                info = await stub.GetInfo(pluginregistration_v1_pb2.InfoRequest(), timeout=_INFO_SECONDS)
            except grpc.aio.AioRpcError:
                return
            error = self.refusal or self._error(info)
            if not error:
                endpoint = grpc.aio.insecure_channel(grpc_address(Path(info.endpoint)))
                self.drivers[socket] = Driver(info, endpoint, asyncio.create_task(self._follow_health(endpoint)))
            status = pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=not error, error=error)
            # One that has ended meanwhile need not know.
            with suppress(grpc.aio.AioRpcError):
                await stub.NotifyRegistrationStatus(status, timeout=_INFO_SECONDS)

    def _error(self, info: pluginregistration_v1_pb2.PluginInfo) -> str:
        if info.type != "DRAPlugin":
            return f"no handler registered for plugin type: {info.type}"
        if "v1.DRAPlugin" not in info.supported_versions:
            return "no supported version"
        if any(driver.info.endpoint == info.endpoint for driver in self.drivers.values()):
            return f"endpoint {info.endpoint} already registered"
        return ""

    async def _forget(self, socket: Path) -> None:
        driver = self.drivers.pop(socket)
        driver.health.cancel()
        await asyncio.gather(driver.health, return_exceptions=True)
        await driver.channel.close()

    async def _follow_health(self, channel: grpc.aio.Channel) -> None:
        """One stream after the other; the end of any makes it forget all."""
        stub = DRAResourceHealthStub(channel)
        while True:
            stream = stub.NodeWatchResources(drahealth_v1alpha1_pb2.NodeWatchResourcesRequest())
            try:
                with suppress(grpc.aio.AioRpcError):
                    async for told in stream:
                        self.told_health += 1
                        for each in told.devices:
                            self.health[each.device.pool_name, each.device.device_name] = each
                self.ended_streams.append(await stream.code())
            finally:
                self.health.clear()
            await asyncio.sleep(_HEALTH_RETRY_SECONDS)

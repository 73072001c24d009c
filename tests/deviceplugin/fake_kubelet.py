"""kubelet's side of the device plugin API, with the behaviour that a real kubelet 1.36 showed and its source has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import grpc

from nvshare.kubelet import deviceplugin_v1beta1_pb2 as api
from nvshare.kubelet.deviceplugin_v1beta1_pb2_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from nvshare.unix_sockets import grpc_address

Context = grpc.aio.ServicerContext[object, object]


class FakeKubelet(RegistrationServicer):
    """One kubelet at a time in ``folder``. What it believes is in ``devices``; how it acts can be set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registrations: list[api.RegisterRequest] = []
        self.devices: dict[str, str] = {}
        self.updates: list[dict[str, str]] = []
        # What its topology manager would go by.
        self.numa_nodes: dict[str, list[int]] = {}
        # How often it has given up all devices, and how many streams' ends it has noted.
        self.lost = 0
        self.ends = 0
        # What Register answers instead of success, and whether ListAndWatch is opened after it.
        self.refusal: str | None = None
        self.watches = True
        # A newer one (1.37) knows whose stream has ended.
        self.tells_apart = False
        # Seconds until it takes note of a stream's end.
        self.slowness = 0.0
        # Called while Register is pending, after the plugin's options were asked.
        self.before_answer: Callable[[], Awaitable[None]] | None = None
        # Awaited between the answer and ListAndWatch.
        self.before_watch: Callable[[], Awaitable[None]] | None = None
        self._server: grpc.aio.Server | None = None
        self._channels: list[grpc.aio.Channel] = []
        self._streams: list[asyncio.Task[None]] = []
        # Whose end is noticed, and who is asked to allocate: set by the newest registration, forgotten apart.
        self._client: grpc.aio.Channel | None = None
        self._endpoint: grpc.aio.Channel | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "kubelet.sock"

    @property
    def healthy(self) -> int:
        """The node's allocatable count."""
        return sum(health == "Healthy" for health in self.devices.values())

    async def start(self) -> None:
        """As kubelet starts: it empties its folder and makes its socket anew."""
        for left in self.folder.iterdir():
            left.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(grpc_address(self.socket))
        await self._server.start()

    async def kill(self) -> None:
        """As kubelet dies: its connections close, its socket's file stays, without anybody behind it."""
        assert self._server is not None
        left_behind = self.folder / "left-behind"
        self.socket.rename(left_behind)
        await self._hang_up()
        await self._server.stop(None)
        left_behind.rename(self.socket)
        self._server = None
        self._client = self._endpoint = None
        self.devices = {}

    async def stop(self) -> None:
        """Ends everything after a test."""
        await self._hang_up()
        if self._server is not None:
            await self._server.stop(None)

    async def close_streams(self) -> None:
        """Ends the ListAndWatch streams as a broken connection would, and opens none again."""
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        self._streams.clear()

    async def Register(self, request: api.RegisterRequest, context: Context) -> api.Empty:  # noqa: N802
        channel = grpc.aio.insecure_channel(grpc_address(self.folder / request.endpoint))
        self._channels.append(channel)
        self._client = channel
        try:
            await DevicePluginStub(channel).GetDevicePluginOptions(api.Empty(), timeout=10, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            self._client = None
            await context.abort(grpc.StatusCode.UNKNOWN, f"failed to get device plugin options: {error.details()}")
        self._endpoint = channel
        self.registrations.append(request)
        if self.before_answer is not None:
            await self.before_answer()
        if self.refusal is not None:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        if self.watches:
            self._streams.append(asyncio.create_task(self._watch(channel)))
        return api.Empty()

    async def allocate(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Asks the plugin that registered last to allocate for one container."""
        assert self._endpoint is not None
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
        response = await DevicePluginStub(self._endpoint).Allocate(request)
        (container,) = response.container_responses
        return container

    async def prefer(self, available: Sequence[str], size: int, must_include: Sequence[str] = ()) -> list[str]:
        """Asks the plugin that registered last which devices one container should get."""
        request = api.PreferredAllocationRequest(
            container_requests=[
                api.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
                )
            ]
        )
        assert self._endpoint is not None
        response = await DevicePluginStub(self._endpoint).GetPreferredAllocation(request)
        (container,) = response.container_responses
        return list(container.deviceIDs)

    async def _watch(self, channel: grpc.aio.Channel) -> None:
        if self.before_watch is not None:
            await self.before_watch()
        try:
            async for response in DevicePluginStub(channel).ListAndWatch(api.Empty()):
                self.devices = {device.ID: device.health for device in response.devices}
                self.numa_nodes = {
                    device.ID: [node.ID for node in device.topology.nodes] for device in response.devices
                }
                self.updates.append(self.devices)
        except grpc.aio.AioRpcError:
            pass
        finally:
            await asyncio.sleep(self.slowness)
            self.ends += 1
            await self._disconnected(channel)

    async def _disconnected(self, channel: grpc.aio.Channel) -> None:
        """Whichever stream of the resource ends: kubelet gives up the newest client, if it knows one."""
        if self.tells_apart:
            lost = channel if channel is self._endpoint else None
        else:
            lost, self._client = self._client, None
        if lost is not None:
            self.lost += 1
            self.devices = dict.fromkeys(self.devices, "Unhealthy")
            await lost.close()

    async def _hang_up(self) -> None:
        await self.close_streams()
        for channel in self._channels:
            await channel.close()
        self._channels.clear()


class KubeletOfSeveral(FakeKubelet):
    """A kubelet to which plugins of several resources come: it has each resource apart."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.resources: dict[str, FakeKubelet] = {}

    def has(self, **healthy: int) -> bool:
        """Whether the node offers just this: by the resource's name in nvshare.com/, as ``mig_1g_10gb``."""
        names = {name: name.removeprefix("nvshare.com/").replace("-", "_").replace(".", "_") for name in self.resources}
        return {names[name]: resource.healthy for name, resource in self.resources.items()} == healthy

    async def Register(self, request: api.RegisterRequest, context: Context) -> api.Empty:  # noqa: N802
        resource = self.resources.setdefault(request.resource_name, FakeKubelet(self.folder))
        return await resource.Register(request, context)

    async def _hang_up(self) -> None:
        for resource in self.resources.values():
            await resource._hang_up()
        self.resources = {}
        await super()._hang_up()

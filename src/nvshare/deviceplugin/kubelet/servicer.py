"""kubelet's device plugin service. The handlers touch memory only: kubelet waits for them without a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import NoReturn, assert_never

import grpc

from nvshare.deviceplugin.answers.allocation import Allocation, Injection, allocate
from nvshare.deviceplugin.answers.preference import AllocationPolicy, Load, prefer
from nvshare.deviceplugin.answers.requests import Fault, RequestError, Rules
from nvshare.deviceplugin.devices import Snapshot
from nvshare.deviceplugin.kubelet.inventory import Part
from nvshare.deviceplugin.metrics import Metrics
from nvshare.kubelet import deviceplugin_v1beta1_pb2 as api
from nvshare.kubelet.deviceplugin_v1beta1_pb2_grpc import DevicePluginServicer
from nvshare.log import Log

Context = grpc.aio.ServicerContext[object, object]

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


class Streams:
    """The open ListAndWatch streams of one server, and since when there is none."""

    def __init__(self) -> None:
        self.open = 0
        self.ever_opened = False
        self.ended = asyncio.Event()
        """Set when one of them has ended; kubelet opens none again."""
        self._none_since = time.monotonic()

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.open += 1
        self.ever_opened = True
        try:
            yield
        finally:
            self.open -= 1
            self.ended.set()
            self._none_since = time.monotonic()

    def restart(self) -> None:
        """Begins to count the time without a stream now."""
        self._none_since = time.monotonic()

    def idle_seconds(self) -> float:
        """For how long no stream has been open; 0 while one is."""
        return 0.0 if self.open else time.monotonic() - self._none_since


class Servicer(DevicePluginServicer):
    """One server's handlers; ``end`` finishes its streams."""

    def __init__(
        self,
        inventory: Part,
        rules: Rules,
        injection: Injection,
        loads: Callable[[], Mapping[str, Load] | None],
        ending: Callable[[], Set[str]],
        policy: AllocationPolicy,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self._inventory = inventory
        self._rules = rules
        self._injection = injection
        self._loads = loads
        self._ending = ending
        self._policy = policy
        self._metrics = metrics
        self._log = log
        self._ended = asyncio.Event()
        self._tells_options = True
        self.streams = Streams()

    def end(self) -> None:
        """Lets every open stream finish."""
        self._ended.set()

    def refuse_options(self) -> None:
        """From now on kubelet does not get the options: it takes a registration for failed."""
        self._tells_options = False

    async def GetDevicePluginOptions(self, request: api.Empty, context: Context) -> api.DevicePluginOptions:  # noqa: N802
        if not self._tells_options:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "another instance of the plugin follows this one")
        return options()

    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        with self.streams.counted(), self._metrics.streams.track_inprogress():
            self._log.info("kubelet opened a ListAndWatch stream", virtual_devices=_count(self._inventory.snapshot))
            try:
                snapshot: Snapshot | None = self._inventory.snapshot
                shown: api.ListAndWatchResponse | None = None
                while snapshot is not None:
                    response = listing(snapshot)
                    if response != shown:
                        yield response
                    shown = response
                    snapshot = await self._next(snapshot)
            finally:
                self._log.info("the ListAndWatch stream ended")

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        with self._metrics.requests.labels("GetPreferredAllocation").time():
            response = api.PreferredAllocationResponse()
            loads, ending = self._loads(), self._ending()
            for container in request.container_requests:
                try:
                    ids = prefer(
                        self._inventory.snapshot,
                        self._rules,
                        container.available_deviceIDs,
                        container.must_include_deviceIDs,
                        container.allocation_size,
                        loads,
                        self._policy,
                        ending,
                    )
                except RequestError as error:
                    await self._refuse("GetPreferredAllocation", error, context)
                response.container_responses.add(deviceIDs=ids)
            return response

    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        with self._metrics.requests.labels("Allocate").time():
            response = api.AllocateResponse()
            for container in request.container_requests:
                try:
                    allocation = allocate(container.devices_ids, self._inventory.snapshot, self._rules, self._injection)
                except RequestError as error:
                    await self._refuse("Allocate", error, context)
                response.container_responses.append(_message(allocation))
                self._log.info("allocated", virtual_devices=list(container.devices_ids))
            return response

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        return api.PreStartContainerResponse()

    async def _next(self, seen: Snapshot) -> Snapshot | None:
        """The next snapshot that differs from the one seen, None when the server ends."""
        newer = asyncio.create_task(self._inventory.newer_than(seen))
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({newer, ended}, return_when=asyncio.FIRST_COMPLETED)
            return None if ended.done() else newer.result()
        finally:
            newer.cancel()
            ended.cancel()

    async def _refuse(self, method: str, error: RequestError, context: Context) -> NoReturn:
        self._metrics.refusals.labels(method).inc()
        self._log.warning("refused", method=method, reason=str(error))
        await context.abort(_code(error.fault), str(error))
        raise AssertionError("abort returns")


def options() -> api.DevicePluginOptions:
    """What the plugin tells kubelet about itself."""
    return api.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=True)


def listing(snapshot: Snapshot) -> api.ListAndWatchResponse:
    """The whole snapshot, as kubelet wants to see it."""
    return api.ListAndWatchResponse(
        devices=[
            api.Device(
                ID=device.id,
                health=HEALTHY if offer.problem is None and device.ordinal not in offer.withheld else UNHEALTHY,
                topology=None
                if offer.numa_node is None
                else api.TopologyInfo(nodes=[api.NUMANode(ID=offer.numa_node)]),
            )
            for offer in snapshot.offers
            for device in offer.devices()
        ]
    )


def _message(allocation: Allocation) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=allocation.environment,
        mounts=[
            api.Mount(
                container_path=str(mount.container_path), host_path=str(mount.host_path), read_only=mount.read_only
            )
            for mount in allocation.mounts
        ],
        annotations=allocation.annotations,
        cdi_devices=[api.CDIDevice(name=name) for name in allocation.cdi_devices],
        devices=[
            api.DeviceSpec(container_path=str(node.container_path), host_path=str(node.host_path), permissions="rw")
            for node in allocation.nodes
        ],
    )


def _code(fault: Fault) -> grpc.StatusCode:
    match fault:
        case Fault.MALFORMED:
            return grpc.StatusCode.INVALID_ARGUMENT
        case Fault.UNKNOWN_DEVICE:
            return grpc.StatusCode.NOT_FOUND
        case Fault.AGAINST_RULES:
            return grpc.StatusCode.FAILED_PRECONDITION
    assert_never(fault)


def _count(snapshot: Snapshot) -> int:
    return sum(offer.virtual_devices for offer in snapshot.offers)

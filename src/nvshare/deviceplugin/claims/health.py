"""kubelet's service for the health of a driver's devices, which it shows in the status of pods that have them.

What kubelet does, as its source (1.36) has it, and what follows from it:

- It opens a stream of each instance that is registered, and 5 s after that has ended or failed another one.
- A device of which it has not heard for 30 s is Unknown: what is told is told again, changed or not.
- When a stream ends it forgets what all instances of the driver told. The one that follows tells it again soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import grpc

from nvshare.deviceplugin.claims.slices import device_name
from nvshare.deviceplugin.devices import Offer
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.kubelet import drahealth_v1alpha1_pb2 as api
from nvshare.kubelet.drahealth_v1alpha1_pb2_grpc import DRAResourceHealthServicer

_REPEAT_SECONDS = 10.0
"""A third of kubelet's time, so that it may miss one."""

Context = grpc.aio.ServicerContext[object, object]


class Health(DRAResourceHealthServicer):
    """One server's streams: how the GPUs are that the node offers."""

    def __init__(self, inventory: Inventory, node: str) -> None:
        self._inventory = inventory
        self._node = node
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Lets every open stream finish."""
        self._ended.set()

    async def NodeWatchResources(  # noqa: N802
        self, request: api.NodeWatchResourcesRequest, context: Context
    ) -> AsyncIterator[api.NodeWatchResourcesResponse]:
        while not self._ended.is_set():
            snapshot, now = self._inventory.snapshot, int(datetime.now(UTC).timestamp())
            yield api.NodeWatchResourcesResponse(devices=[_health(each, self._node, now) for each in snapshot.offers])
            news = asyncio.create_task(self._inventory.newer_than(snapshot))
            ended = asyncio.create_task(self._ended.wait())
            try:
                await asyncio.wait({news, ended}, timeout=_REPEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
                ended.cancel()


def _health(offer: Offer, node: str, now: int) -> api.DeviceHealth:
    """As the slice has it: what is UNHEALTHY here has a taint there."""
    return api.DeviceHealth(
        device=api.DeviceIdentifier(pool_name=node, device_name=device_name(offer.uuid)),
        health=api.HEALTHY if offer.problem is None else api.UNHEALTHY,
        last_updated_time=now,
        message=offer.problem or "",
    )

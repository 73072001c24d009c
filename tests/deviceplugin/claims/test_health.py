"""kubelet is told how the node's GPUs are: at once, at every change, and again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from nvshare.deviceplugin.claims.health import Health
from nvshare.deviceplugin.devices import Offer, Snapshot
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.kubelet.drahealth_v1alpha1_pb2 import (
    HEALTHY,
    UNHEALTHY,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)
from nvshare.kubelet.drahealth_v1alpha1_pb2_grpc import (
    DRAResourceHealthStub,
    add_DRAResourceHealthServicer_to_server,
)
from nvshare.unix_sockets import grpc_address
from tests.deviceplugin.claims.bench import GPU_A, GPU_B, NODE
from tests.polling import until

WELL = Snapshot((Offer(GPU_A, 10), Offer(GPU_B, 10)))
SICK = Snapshot((Offer(GPU_A, 10), Offer(GPU_B, 10, "it fell off the bus")))

Stream = grpc.aio.UnaryStreamCall[NodeWatchResourcesRequest, NodeWatchResourcesResponse]
States = dict[str, tuple[int, str]]


class Served:
    """The service, and its caller."""

    def __init__(self, socket: Path) -> None:
        self.inventory = Inventory()
        self.inventory.publish(WELL)
        self.health = Health(self.inventory, NODE)
        self.server = grpc.aio.server()
        add_DRAResourceHealthServicer_to_server(self.health, self.server)
        self.server.add_insecure_port(grpc_address(socket))
        self.channel = grpc.aio.insecure_channel(grpc_address(socket))

    def stream(self) -> Stream:
        made: Stream = DRAResourceHealthStub(self.channel).NodeWatchResources(NodeWatchResourcesRequest())
        return made


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = Served(tmp_path / "s")
    await made.server.start()
    yield made
    await made.channel.close()
    await made.server.stop(None)


async def told(stream: Stream) -> States:
    """The next that it says, by device."""
    async with asyncio.timeout(5):
        answer = await stream.read()
    assert isinstance(answer, NodeWatchResourcesResponse)
    assert {each.device.pool_name for each in answer.devices} == {NODE}
    assert all(abs(each.last_updated_time - time.clock_gettime(time.CLOCK_REALTIME)) < 5 for each in answer.devices)
    return {each.device.device_name: (each.health, each.message) for each in answer.devices}


async def test_at_once_and_at_every_change(served: Served) -> None:
    """Each stream has the whole list, by the names of the slice, whenever it was opened."""
    well = {GPU_A.lower(): (HEALTHY, ""), GPU_B.lower(): (HEALTHY, "")}
    sick = well | {GPU_B.lower(): (UNHEALTHY, "it fell off the bus")}
    first = served.stream()
    assert await told(first) == well
    served.inventory.publish(SICK)
    second = served.stream()
    assert await told(first) == await told(second) == sick
    served.inventory.publish(WELL)
    assert await told(first) == await told(second) == well


async def test_again_and_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a change too: kubelet takes for unknown what it does not hear of."""
    monkeypatch.setattr("nvshare.deviceplugin.claims.health._REPEAT_SECONDS", 0.02)
    stream = served.stream()
    assert len({str(await told(stream)) for _ in range(4)}) == 1


async def test_nothing_is_left(served: Served) -> None:
    """Of streams that kubelet has left, and of those that are ended."""
    before = len(asyncio.all_tasks())
    left, ended = [served.stream() for _ in range(5)], [served.stream() for _ in range(5)]
    for stream in (*left, *ended):
        await told(stream)
    for stream in left:
        stream.cancel()
    served.health.end()
    for stream in ended:
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK
    await until(lambda: len(asyncio.all_tasks()) <= before, "no task is left")
    assert await served.stream().read() is grpc.aio.EOF

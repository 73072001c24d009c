"""What a scheduler as it runs shows of clients whose memory swaps: to the owner, to everybody, and to Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import grpc

from nvshare.admin import admin_pb2, admin_pb2_grpc
from tests.polling import poll_until
from tests.scheduler.api.pages import figures
from tests.scheduler.swapper import Swapper
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]
GPU = "GPU-6e767368-6172-6500-0000-000000000001"
MIB = 1 << 20
TOTAL = 512 * MIB
FOOTPRINT = 320 * MIB
"""One fits the device beside two small contexts and the reserve, two do not."""


def test_one_that_left_for_another(serve: Serve) -> None:
    """What is where, what moved, what was refused and the host memory that it takes are shown, and to everybody."""
    scheduler = serve("--metrics-address=127.0.0.1:0", "--host-memory", "2GiB")
    idle, other = (Swapper(scheduler.client()).register(total_bytes=TOTAL) for _ in range(2))
    idle.grow(FOOTPRINT)
    request = other.ask(2 * TOTAL)
    other.until(lambda: request in other.refused)
    request = other.ask(FOOTPRINT)
    _until(lambda: other.granted == request, idle, other)
    other.say(footprint_bytes=FOOTPRINT, resident_bytes=min(FOOTPRINT, other.allotted))
    other.lock()
    _until(lambda: other.grant is not None, idle, other)
    assert idle.evicted

    def shown() -> admin_pb2.Device:
        return scheduler.status().devices[0]

    poll_until(lambda: shown().clients[0].swap.swapped_bytes == idle.memory.out_bytes, "the newest is shown")
    device = shown()
    first, second = device.clients
    assert [client.backend for client in device.clients] == ["swap", "swap"]
    assert first.swap.resident_bytes + first.swap.swapped_bytes == first.footprint_bytes == FOOTPRINT
    assert first.swap.swapped_bytes > 0
    assert first.swap.host_bytes >= first.swap.usable_host_bytes >= first.swap.swapped_bytes
    assert (second.state, second.swap.resident_bytes, second.swap.swapped_bytes) == ("holding", FOOTPRINT, 0)
    assert second.swap.allotted_bytes >= FOOTPRINT
    assert device.reserve_bytes > 0
    assert device.swapping.out_bytes >= first.swap.swapped_bytes
    assert device.swapping.refused_growths == 1
    status = scheduler.status()
    assert status.host_memory_bytes == 2 << 30
    assert 0 < status.host_memory_used_bytes <= status.host_memory_bytes
    public = admin_pb2_grpc.AdminStub(grpc.insecure_channel(f"unix:{scheduler.run_dir.status_socket}"))
    assert public.GetStatus(admin_pb2.GetStatusRequest(), timeout=TIMEOUT_SECONDS).devices[0].clients[0] == first
    seen = figures(scheduler)
    label = f'{{gpu="{GPU}"}}'
    assert seen[f"nvshare_swapped_bytes{label}"] == first.swap.swapped_bytes
    assert seen[f"nvshare_resident_bytes{label}"] == first.swap.resident_bytes + FOOTPRINT
    assert seen[f"nvshare_swap_out_bytes_total{label}"] == device.swapping.out_bytes
    assert seen[f"nvshare_refused_growths_total{label}"] == 1
    assert seen["nvshare_host_memory_bytes"] == 2 << 30


def _until(condition: Callable[[], bool], *clients: Swapper) -> None:
    """Until this is so all clients do what they are told."""

    def done() -> bool:
        for client in clients:
            with suppress(TimeoutError):
                client.take(client.client.receive(0.01))
        return condition()

    poll_until(done, "the scheduler has answered", TIMEOUT_SECONDS)

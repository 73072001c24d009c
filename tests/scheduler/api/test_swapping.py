"""What the metrics and the status say of memory that swaps, from what the core shows of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from nvshare.admin import admin_pb2
from nvshare.nvml_state import NvmlState
from nvshare.scheduler.api import status
from nvshare.scheduler.api.metrics import SchedulerCollector
from nvshare.scheduler.api.scheduler_snapshot import SchedulerSnapshot
from nvshare.scheduler.api.turn_times import Figure, TurnTimes
from nvshare.scheduler.arenas.storing import FileTimes
from nvshare.scheduler.core.actions import Grant, Revoke
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    LockReleased,
    LockRequested,
    Policy,
)
from nvshare.scheduler.core.snapshot import (
    ClientSnapshot,
    DeviceSnapshot,
    HostMemory,
    Line,
    ShownState,
    SwapSnapshot,
    Totals,
    TrafficSnapshot,
)
from nvshare.scheduler.core.terms import Terms
from nvshare.scheduler.memberships import Origins
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.registered_client import RegisteredClient
from nvshare.scheduler.sleeping.process import SleepTimes

GIB = 1 << 30
GPU = "GPU-a"
TRAFFIC = TrafficSnapshot(
    in_bytes=30 * GIB,
    out_bytes=31 * GIB,
    in_seconds=1.5,
    out_seconds=1.25,
    stalls=5,
    stall_seconds=0.75,
    prefetched=3,
    refused=2,
    in_bytes_per_second=20.5 * GIB,
    out_bytes_per_second=24.0 * GIB,
)
SWAPS = ClientSnapshot(
    1,
    ShownState.HOLDING,
    11 * GIB,
    GIB // 2,
    True,
    3.0,
    1.0,
    2,
    swap=SwapSnapshot(
        resident_bytes=8 * GIB,
        out_bytes=3 * GIB,
        fixed_bytes=GIB,
        allotted_bytes=9 * GIB,
        admitted_bytes=12 * GIB,
        arena_bytes=7 * GIB,
        usable_bytes=6 * GIB,
        in_bytes=GIB,
        leaving_bytes=2 * GIB,
        wanted_bytes=GIB // 4,
        still_seconds=1.5,
        stored_bytes=2 * GIB,
        shared_bytes=GIB,
    ),
)
STAYS = ClientSnapshot(2, ShownState.IDLE, 2 * GIB, GIB // 2, True, 0.0, 0.0, 0)
DEVICE = DeviceSnapshot(
    GPU,
    16 * GIB,
    0,
    Policy.AUTO,
    30.0,
    None,
    False,
    (SWAPS, STAYS),
    Totals(),
    reserve_bytes=GIB // 2,
    traffic=TRAFFIC,
)


def figures_of(device: DeviceSnapshot) -> dict[str, float]:
    """What the metrics say of a device, and of host memory."""
    snapshot = SchedulerSnapshot(
        (device,),
        {},
        {},
        2,
        100,
        {},
        0,
        0,
        HostMemory(64 * GIB, 23 * GIB, 100 * GIB, 7 * GIB, 5 * GIB, 3 * GIB),
        SleepTimes(3, 1.25, 2, 0.5, 1),
        FileTimes(9 * GIB, 4.5, 2 * GIB, 0.75),
        NvmlState.OK,
    )
    registry = CollectorRegistry()
    registry.register(SchedulerCollector("1", lambda: snapshot))
    lines = (line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#")
    return {name: float(value) for name, value in lines}


def test_requests() -> None:
    """What containers asked to keep, and what of it is kept: each counts once, however many processes it has."""
    asks, smaller = Terms(memory_request_bytes=4 * GIB), Terms(memory_request_bytes=3 * GIB, memory_limit_bytes=GIB)
    clients = (
        replace(SWAPS, container="train", terms=asks, kept_bytes=3 * GIB),
        replace(STAYS, container="train", terms=asks, kept_bytes=3 * GIB),
        replace(SWAPS, client=3, container="", terms=smaller, kept_bytes=GIB),
        replace(STAYS, client=4, container="idle"),
    )
    figures = figures_of(replace(DEVICE, clients=clients))
    assert figures[f'nvshare_memory_requested_bytes{{gpu="{GPU}"}}'] == 5 * GIB
    assert figures[f'nvshare_memory_kept_bytes{{gpu="{GPU}"}}'] == 4 * GIB


def test_metrics() -> None:
    """What is where, what moved and for how long, whether it was there in time, what was refused, host memory."""
    asleep = replace(STAYS, client=3, state=ShownState.ASLEEP, footprint_bytes=0, pinned_bytes=0)
    figures = figures_of(replace(DEVICE, clients=(*DEVICE.clients, asleep)))
    label = f'{{gpu="{GPU}"}}'
    expected = {
        f"nvshare_footprint_bytes{label}": 14 * GIB,
        f"nvshare_resident_bytes{label}": 8 * GIB,
        f"nvshare_swapped_bytes{label}": 3 * GIB,
        f"nvshare_allotted_bytes{label}": 9 * GIB,
        f"nvshare_reserve_bytes{label}": GIB // 2,
        f"nvshare_swap_in_bytes_total{label}": 30 * GIB,
        f"nvshare_swap_out_bytes_total{label}": 31 * GIB,
        f"nvshare_swap_in_seconds_total{label}": 1.5,
        f"nvshare_swap_out_seconds_total{label}": 1.25,
        f"nvshare_prefetch_hits_total{label}": 3,
        f"nvshare_prefetch_misses_total{label}": 2,
        f"nvshare_refused_growths_total{label}": 2,
        "nvshare_sleeps_total": 3,
        "nvshare_sleep_seconds_total": 1.25,
        "nvshare_wakes_total": 2,
        "nvshare_wake_seconds_total": 0.5,
        "nvshare_lost_processes_total": 1,
        f"nvshare_sleeping_clients{label}": 1,
        "nvshare_host_memory_bytes": 64 * GIB,
        "nvshare_host_memory_used_bytes": 23 * GIB,
        f"nvshare_stored_bytes{label}": 2 * GIB,
        "nvshare_shared_blocks_bytes": 5 * GIB,
        "nvshare_packs_bytes": 3 * GIB,
        "nvshare_swap_file_bytes": 100 * GIB,
        "nvshare_swap_file_used_bytes": 7 * GIB,
        "nvshare_swap_file_written_bytes_total": 9 * GIB,
        "nvshare_swap_file_write_seconds_total": 4.5,
        "nvshare_swap_file_read_bytes_total": 2 * GIB,
        "nvshare_swap_file_read_seconds_total": 0.75,
    }
    assert {name: figures.get(name) for name in expected} == expected


def message_of(device: DeviceSnapshot) -> admin_pb2.Device:
    """What the status says of a device with two clients, the second of which does not swap."""
    nobody: Any = None
    clients = {
        number: RegisteredClient(nobody, GPU, 2, backend, 7, Description(7, "python", Identity()))
        for number, backend in ((1, "swap"), (2, "native"))
    }
    return status.device_message(
        device,
        None,
        True,
        clients,
        (),
        (),
        (),
        (),
        lambda _container: Origins(),
        lambda _client: 0.0,
        lambda _client: "",
        None,
        0,
        0,
    )


@pytest.mark.parametrize("recovering", [False, True])
def test_status_of_who_can_not_come_in(recovering: bool) -> None:
    """It waits for others' ends, and not for its turn; but who is awaited may be back with less memory."""
    lines = Line(1, 2, 9.0, (), recovering, too_large=True), Line(2, 2, 9.0, (), recovering)
    clients = tuple(
        replace(each, state=ShownState.WAITING, line=line) for each, line in zip((SWAPS, STAYS), lines, strict=True)
    )
    shown = message_of(replace(DEVICE, clients=clients)).clients
    assert [each.too_large for each in shown] == [not recovering, False]


def test_status() -> None:
    """The same for people, per client too; a client whose memory does not swap has no such figures."""
    shown = message_of(DEVICE)
    assert shown.reserve_bytes == GIB // 2
    assert shown.swapping == admin_pb2.Swapping(
        in_bytes=30 * GIB,
        out_bytes=31 * GIB,
        in_seconds=1.5,
        out_seconds=1.25,
        in_bytes_per_second=20.5 * GIB,
        out_bytes_per_second=24.0 * GIB,
        stalls=5,
        stall_seconds=0.75,
        prefetched=3,
        refused_growths=2,
    )
    swaps, stays = shown.clients
    assert (swaps.footprint_bytes, stays.footprint_bytes) == (12 * GIB, 2 * GIB)
    assert swaps.swap == admin_pb2.Swap(
        resident_bytes=8 * GIB,
        swapped_bytes=3 * GIB,
        fixed_bytes=GIB,
        allotted_bytes=9 * GIB,
        admitted_bytes=12 * GIB,
        host_bytes=7 * GIB,
        usable_host_bytes=6 * GIB,
        coming_bytes=GIB,
        leaving_bytes=2 * GIB,
        wanted_bytes=GIB // 4,
        still_seconds=1.5,
        stored_bytes=2 * GIB,
        shared_bytes=GIB,
    )
    assert not stays.HasField("swap")


def test_a_stall_is_what_follows_the_release() -> None:
    """The drain before it is none; a client whose memory does not move is never stalled."""
    times = TurnTimes()
    for client, backend in ((1, Backend.SWAP), (2, Backend.SWAP), (3, Backend.NATIVE)):
        times.happened(ClientRegistered(client, GPU, 0, ClaimedState.IDLE, backend=backend), [], 0.0)
    times.happened(LockRequested(1), [Grant(1, 1)], 1.0)
    times.happened(LockRequested(2), [], 2.0)
    times.happened(LockRequested(3), [], 3.0)
    times.happened(None, [Revoke(1, 1)], 31.0)
    assert not _stalls(times, LockReleased(1, 1), [], 31.5)
    assert _stalls(times, None, [Grant(2, 2)], 31.75) == [(2, 0.25)]
    assert not _stalls(times, LockReleased(2, 2), [Grant(3, 3)], 61.75)
    times.happened(LockRequested(1), [], 62.0)
    assert _stalls(times, LockReleased(3, 3), [Grant(1, 4)], 63.0) == [(1, 0.0)]


def test_waiting_for_data_that_no_holder_kept_away_is_no_stall() -> None:
    """Nobody handed the lock over: the wait alone has it."""
    times = TurnTimes()
    times.happened(ClientRegistered(1, GPU, 0, ClaimedState.IDLE, backend=Backend.SWAP), [], 0.0)
    times.happened(LockRequested(1), [], 1.0)
    assert not _stalls(times, None, [Grant(1, 1)], 1.5)


def _stalls(times: TurnTimes, event: LockReleased | None, actions: list[Grant], now: float) -> list[tuple[int, float]]:
    measured = times.happened(event, actions, now)
    return [(each.client, each.seconds) for each in measured if each.figure is Figure.STALL]

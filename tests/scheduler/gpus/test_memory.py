"""What the core is told about memory, from what NVML measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvshare.scheduler.core.events import DeviceSeen, PinnedAssumed, PinnedMeasured, Policy
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState, SwapSnapshot, Totals
from nvshare.scheduler.gpus.memory import Process, Usage, measured

GIB = 1 << 30
MIB = 1 << 20
TOTAL = 16 * GIB
ASSUMED = 640 * MIB


def client(number: int, footprint: int | None, pinned: int = ASSUMED, measured_before: bool = False) -> ClientSnapshot:
    """A client as the core shows it."""
    return ClientSnapshot(number, ShownState.IDLE, footprint, pinned, measured_before, 0.0, 0.0, 0)


def device(*clients: ClientSnapshot, total: int = TOTAL, foreign: int = 0) -> DeviceSnapshot:
    """A device as the core shows it."""
    return DeviceSnapshot("GPU-0", total, foreign, Policy.AUTO, 30.0, None, False, clients, Totals())


def test_native_client() -> None:
    """Of a native client's bytes those beyond its footprint are pinned; what nobody here has is foreign."""
    seen = device(client(1, 2 * GIB))
    usage = Usage(TOTAL, 5 * GIB, {10: 2 * GIB + 500 * MIB, 99: 2 * GIB})
    assert measured(seen, {1: Process(10, "native")}, usage) == [
        PinnedMeasured(1, 500 * MIB),
        DeviceSeen("GPU-0", TOTAL, 5 * GIB - 2 * GIB - 500 * MIB),
    ]


def test_managed_client() -> None:
    """A managed client's bytes are all pinned, and its managed pages, wherever they are, are not foreign."""
    seen = device(client(1, 4 * GIB))
    usage = Usage(TOTAL, 3 * GIB, {10: 500 * MIB})
    assert measured(seen, {1: Process(10, "managed")}, usage) == [PinnedMeasured(1, 500 * MIB)]


def test_managed_client_whose_pages_are_elsewhere() -> None:
    """Managed pages in host memory do not hide what other processes have on the device."""
    seen = device(client(1, 4 * GIB, pinned=500 * MIB, measured_before=True))
    usage = Usage(TOTAL, 2 * GIB + 500 * MIB, {10: 500 * MIB, 99: 2 * GIB})
    assert measured(seen, {1: Process(10, "managed")}, usage) == [DeviceSeen("GPU-0", TOTAL, 2 * GIB)]


def test_version_1_client() -> None:
    """A client without a footprint is taken like a managed one."""
    seen = device(client(1, None))
    assert measured(seen, {1: Process(10, "")}, Usage(TOTAL, GIB, {10: GIB})) == [PinnedMeasured(1, GIB)]


def test_footprint_ahead_of_the_measurement() -> None:
    """A client that has allocated since NVML looked has no negative pinned memory."""
    seen = device(client(1, 2 * GIB))
    assert measured(seen, {1: Process(10, "native")}, Usage(TOTAL, GIB, {10: GIB})) == [PinnedMeasured(1, 0)]


def test_client_that_nvml_does_not_list() -> None:
    """With a hidden pid, or no bytes given, nothing is measured, and the client's charge is not foreign."""
    seen = device(client(1, 2 * GIB), client(2, 1 * GIB))
    processes = {1: Process(0, "native"), 2: Process(20, "native")}
    used = 3 * GIB + 2 * ASSUMED
    assert measured(seen, processes, Usage(TOTAL, used, {})) == []
    assert measured(seen, processes, Usage(TOTAL, used + GIB, {})) == [DeviceSeen("GPU-0", TOTAL, GIB)]


@pytest.mark.parametrize("state", [ShownState.ASLEEP, ShownState.WAKING])
@pytest.mark.parametrize("pid", [0, 10])
def test_nothing_is_assumed_of_who_sleeps(state: ShownState, pid: int) -> None:
    """What is in use is others': room that one would wake into is not there."""
    seen = device(replace(client(1, GIB, pinned=0), state=state))
    usage = Usage(TOTAL, 3 * GIB, {99: 3 * GIB})
    assert measured(seen, {1: Process(pid, "swap")}, usage) == [DeviceSeen("GPU-0", TOTAL, 3 * GIB)]


def test_hidden_clients_are_charged_with_what_is_in_use_at_most() -> None:
    """No assumption makes more of their contexts than the device has in use; the rest is nobody's."""
    seen = device(client(1, 2 * GIB), client(2, 1 * GIB))
    processes = {1: Process(0, "native"), 2: Process(0, "managed")}
    usage = Usage(TOTAL, 2 * GIB + 600 * MIB, {99: 2 * GIB + 300 * MIB, 98: 300 * MIB})
    assert measured(seen, processes, usage) == [PinnedAssumed(1, 300 * MIB), PinnedAssumed(2, 300 * MIB)]


def test_what_was_measured_of_a_hidden_client_stays() -> None:
    """It pins that still, as far as is known; only the others' share is an assumption."""
    seen = device(client(1, 0, pinned=500 * MIB, measured_before=True), client(2, 0))
    processes = {1: Process(0, "native"), 2: Process(0, "native")}
    assert measured(seen, processes, Usage(TOTAL, 600 * MIB, {})) == [PinnedAssumed(2, 100 * MIB)]


def test_bytes_that_nvml_does_not_give() -> None:
    """On MIG devices and under WSL processes are listed without their memory."""
    seen = device(client(1, GIB), client(2, 0))
    processes = {1: Process(10, "native"), 2: Process(20, "native")}
    usage = Usage(TOTAL, GIB + 600 * MIB, {10: None, 20: None})
    assert measured(seen, processes, usage) == [PinnedAssumed(1, 300 * MIB), PinnedAssumed(2, 300 * MIB)]


def test_an_idle_client_that_is_not_listed_beside_others_has_no_context() -> None:
    """Its process is visible, NVML lists the processes of this machine, and it is not there: nothing is pinned."""
    seen = device(client(1, GIB, pinned=500 * MIB, measured_before=True), client(2, 0))
    usage = Usage(TOTAL, GIB + 500 * MIB, {10: GIB + 500 * MIB})
    processes = {1: Process(10, "native"), 2: Process(20, "native")}
    assert measured(seen, processes, usage) == [PinnedAssumed(2, 0)]
    waiting = replace(seen.clients[1], state=ShownState.WAITING)
    at_work = device(seen.clients[0], waiting)
    assert measured(at_work, processes, replace(usage, used_bytes=TOTAL)) == [
        DeviceSeen("GPU-0", TOTAL, TOTAL - GIB - 500 * MIB - ASSUMED)
    ]


def test_who_has_memory_on_the_device_has_a_context() -> None:
    """NVML lists its process by another pid, and that of another client by its own."""
    seen = device(swapper(1, 0, pinned=300 * MIB), swapper(2, GIB))
    processes = {1: Process(10, "swap"), 2: Process(20, "swap")}
    usage = Usage(TOTAL, GIB + 600 * MIB, {10: 300 * MIB, 1: GIB + 300 * MIB})
    assert measured(seen, processes, usage) == [PinnedAssumed(2, 300 * MIB)]


def test_pids_of_another_namespace_prove_nothing() -> None:
    """Where no client is listed, NVML's pids may mean other processes than ours."""
    seen = device(client(1, GIB), client(2, 0))
    processes = {1: Process(10, "native"), 2: Process(20, "native")}
    usage = Usage(TOTAL, 3 * GIB, {1010: GIB + 600 * MIB, 1020: 600 * MIB})
    assert measured(seen, processes, usage) == [DeviceSeen("GPU-0", TOTAL, 2 * GIB - 2 * ASSUMED)]


def test_two_connections_of_one_process() -> None:
    """A process that is two clients for a while has its pinned bytes charged once."""
    seen = device(client(1, GIB), client(2, GIB))
    processes = {1: Process(10, "native"), 2: Process(10, "native")}
    assert measured(seen, processes, Usage(TOTAL, 3 * GIB, {10: 3 * GIB})) == [
        PinnedMeasured(1, GIB // 2),
        PinnedMeasured(2, GIB // 2),
    ]


def test_nothing_new_is_no_event() -> None:
    """What the core knows already is not said again."""
    seen = device(client(1, GIB, pinned=500 * MIB, measured_before=True), foreign=MIB)
    usage = Usage(TOTAL, GIB + 501 * MIB, {10: GIB + 500 * MIB})
    assert measured(seen, {1: Process(10, "native")}, usage) == []


def test_total_that_was_unknown() -> None:
    """A device that only version 1 clients named gets its size from NVML."""
    assert measured(device(total=0), {}, Usage(TOTAL, 0, {})) == [DeviceSeen("GPU-0", TOTAL, 0)]


def test_total_that_clients_claimed() -> None:
    """What NVML says is told even when it is the same, so that no later claim counts."""
    claimed = replace(device(), total_measured=False)
    assert measured(claimed, {}, Usage(TOTAL, 0, {})) == [DeviceSeen("GPU-0", TOTAL, 0)]


def swapper(number: int, resident: int, fixed: int = 0, pinned: int = ASSUMED) -> ClientSnapshot:
    """A client of 8 GiB whose memory swaps, as the core shows it."""
    swap = SwapSnapshot(resident, 0, fixed, resident, 8 * GIB, 0, 0)
    return replace(client(number, 8 * GIB, pinned, measured_before=pinned != ASSUMED), swap=swap)


def test_client_whose_memory_swaps() -> None:
    """Of its bytes those are pinned that are neither of what is in nor of what can't move."""
    seen = device(swapper(1, 3 * GIB, fixed=GIB))
    usage = Usage(TOTAL, 6 * GIB, {10: 4 * GIB + 500 * MIB, 99: GIB + 524 * MIB})
    assert measured(seen, {1: Process(10, "swap")}, usage) == [
        PinnedMeasured(1, 500 * MIB),
        DeviceSeen("GPU-0", TOTAL, GIB + 524 * MIB),
    ]


def test_client_that_moved_during_the_measurement() -> None:
    """What it pins can't be told; its process's bytes are not foreign all the same."""
    seen = device(swapper(1, 3 * GIB), swapper(2, GIB))
    usage = Usage(TOTAL, 7 * GIB, {10: 5 * GIB, 20: GIB + 400 * MIB})
    processes = {1: Process(10, "swap"), 2: Process(20, "swap")}
    assert measured(seen, processes, usage, moved={1}) == [
        PinnedMeasured(2, 400 * MIB),
        DeviceSeen("GPU-0", TOTAL, 624 * MIB),
    ]


def test_hidden_client_whose_memory_swaps() -> None:
    """What is out is in nobody's way."""
    seen = device(swapper(1, 3 * GIB, fixed=GIB))
    usage = Usage(TOTAL, 4 * GIB + 300 * MIB, {})
    assert measured(seen, {1: Process(0, "swap")}, usage) == [PinnedAssumed(1, 300 * MIB)]


def test_a_hidden_client_that_waits_for_its_context_takes_no_share() -> None:
    """However many wait, what is in use is what those pin whose contexts are there."""
    waits = swapper(2, 0, fixed=0)
    assert waits.swap is not None
    seen = device(swapper(1, GIB, fixed=0), replace(waits, swap=replace(waits.swap, awaits_context=True)))
    usage = Usage(TOTAL, GIB + 300 * MIB, {})
    assert measured(seen, {1: Process(0, "swap"), 2: Process(0, "swap")}, usage) == [PinnedAssumed(1, 300 * MIB)]


def test_memory_of_one_that_departed_is_not_foreign() -> None:
    """It counts as that client's until it is free."""
    usage = Usage(TOTAL, 5 * GIB, {30: 4 * GIB, 99: GIB})
    assert measured(device(foreign=GIB), {}, usage, departed={30}) == []
    assert measured(device(foreign=GIB), {}, usage) == [DeviceSeen("GPU-0", TOTAL, 5 * GIB)]


def test_what_was_lacking_is_measured() -> None:
    """The same as before is news where a client found less than there should have been."""
    seen = replace(device(foreign=GIB), shortage_bytes=64 * MIB)
    assert measured(seen, {}, Usage(TOTAL, GIB, {99: GIB})) == [DeviceSeen("GPU-0", TOTAL, GIB)]


def test_a_device_in_doubt_is_seen_anew() -> None:
    """A growth waits for that, and for all else that was measured: so it comes last, whether it is news or not."""
    seen = replace(device(swapper(1, 3 * GIB), foreign=GIB), in_doubt=True)
    usage = Usage(TOTAL, 4 * GIB + 500 * MIB, {10: 3 * GIB + 500 * MIB, 99: GIB})
    assert measured(seen, {1: Process(10, "swap")}, usage) == [
        PinnedMeasured(1, 500 * MIB),
        DeviceSeen("GPU-0", TOTAL, GIB),
    ]

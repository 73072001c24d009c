"""What the core is told about memory, from what NVML measured."""

from __future__ import annotations

from nvshare.scheduler.core.events import DeviceSeen, PinnedMeasured, Policy
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState, Totals
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
        DeviceSeen("GPU-0", TOTAL, 5 * GIB - 2 * GIB - 500 * MIB),
        PinnedMeasured(1, 500 * MIB),
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

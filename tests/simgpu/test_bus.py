"""The time that the bus between host and device takes, and that calls of the driver take."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from nvshare.simgpu import record
from nvshare.simgpu.turns import Kind, Span, overlaps
from tests.simgpu.conftest import Clients

MIB = 1 << 20
COPY = """
import ctypes, mmap, os
from tests.simgpu.device import *

kept = []

def mapped(file, size):
    kept.append(mmap.mmap(file, size))
    return ctypes.addressof(ctypes.c_char.from_buffer(kept[-1]))

def registered(size):
    file = os.memfd_create("arena")
    os.ftruncate(file, size)
    address = mapped(file, size)
    call("cuMemHostRegister", address, size, 0)
    return address, file

Device.open()
"""
WAIT_AND_COPY = """
size = {size}
memory, (host, file) = allocate(size), registered(size)
print("ready", flush=True)
input()
{copy}
call("cuCtxSynchronize")
"""
OUT = "call('cuMemcpyDtoHAsync', host, memory, size, 0)"
IN = "call('cuMemcpyHtoDAsync', memory, host, size, 0)"


def use_devices(state_dir: Path, text: str) -> None:
    """Makes the folder that processes will use, with these devices."""
    state_dir.mkdir()
    (state_dir / "devices").write_text(text + "\n")


def copies(state_dir: Path) -> list[Span]:
    """The copies that device 0 made."""
    return [span for span in record.read(state_dir, 0) if span.kind is Kind.COPY]


def seconds(spans: list[Span]) -> float:
    """From the start of the first to the end of the last."""
    return (max(span.end_ns for span in spans) - min(span.start_ns for span in spans)) / 1e9


def copy_at_once(clients: Clients, state_dir: Path, *submits: str, size: int) -> list[Span]:
    """What the device recorded of copies that several processes make at once, each in its own way."""
    processes = [clients.start(COPY + WAIT_AND_COPY.format(size=size, copy=submit)) for submit in submits]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert all(process.wait(60) == 0 for process in processes)
    return copies(state_dir)


def test_one_direction_is_shared(clients: Clients, state_dir: Path) -> None:
    """Two processes that copy the same way at the same time get the rate of one between them, and both go on."""
    use_devices(state_dir, "1GiB/16MiB@200MB/s")
    spans = copy_at_once(clients, state_dir, OUT, OUT, size=64 * MIB)
    assert seconds(spans) >= 2 * 64 * MIB / 200e6
    assert overlaps(spans), "one waited until the other was through"


def test_directions_run_beside_each_other(clients: Clients, state_dir: Path) -> None:
    """A copy to the host and one to the device need much less than two in one direction, and more than one alone."""
    use_devices(state_dir, "1GiB/16MiB@50MB/s")
    spans = copy_at_once(clients, state_dir, OUT, IN, size=64 * MIB)
    assert {span.name for span in spans} == {"copy to host", "copy to device"}
    assert 64 * MIB / 50e6 < seconds(spans) < 1.8 * 64 * MIB / 50e6


@pytest.mark.parametrize(("submit", "permille"), [(IN, 179), (OUT, 325)])
def test_pageable_memory_is_slower(clients: Clients, state_dir: Path, submit: str, permille: int) -> None:
    """Memory that nobody registered moves at 9.9 of 55.4 parts of the rate in, and at 18.0 of 55.4 parts out."""
    use_devices(state_dir, "1GiB/16MiB@100MB/s")
    clients.run(COPY + f"size = {16 * MIB}\nmemory, host = allocate(size), mapped(-1, size)\n{submit}\n")
    assert seconds(copies(state_dir)) >= 16 * MIB / (100e6 * permille / 1000)


def test_a_registered_file_moves_at_full_rate(clients: Clients, state_dir: Path) -> None:
    """Memory that another process filled is mapped, registered and copied like memory that the driver allocated."""
    use_devices(state_dir, "1GiB/16MiB@100MB/s")
    clients.run(
        COPY + f"size = {16 * MIB}\n"
        "memory, (host, file) = allocate(size), registered(size)\n"
        "if os.fork() == 0:\n"
        "    os.pwrite(file, b'before', size - 6)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        f"{IN}\n"
        "call('cuMemsetD8Async', memory + size - 6, ord('x'), 1, 0)\n"
        f"{OUT}\n"
        "call('cuCtxSynchronize')\n"
        "assert os.pread(file, 6, size - 6) == b'xefore'\n"
    )
    for span in copies(state_dir):
        assert 16 * MIB / 100e6 <= seconds([span]) < 2 * 16 * MIB / 100e6


def test_a_killed_process_leaves_the_bus(clients: Clients, state_dir: Path) -> None:
    """What a process had still to copy when it was killed is in nobody's way."""
    use_devices(state_dir, "16GiB/16MiB@10MB/s")
    process = clients.start(
        COPY + f"size, later = {8 << 30}, {8 * MIB}\n"
        "memory, (host, file) = allocate(size), registered(size)\n"
        "call('cuMemsetD8', memory + later, 7, 1)\n"
        f"{OUT}\n"
        "while os.pread(file, 1, later) != b'\\7':\n"
        "    os.sched_yield()\n"
        "print('copying', flush=True)\n"
        "input()\n"
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    clients.run(COPY + f"size = 4096\nmemory, (host, file) = allocate(size), registered(size)\n{OUT}")


def test_calls_take_their_time(clients: Clients) -> None:
    """Calls of virtual memory management, allocations and registrations take at least what an H200's driver needs."""
    clients.run(
        COPY + "import time\n"
        f"size = {64 * MIB}\n"
        "def at_least(seconds, function, *arguments):\n"
        "    start = time.monotonic()\n"
        "    answer = call(function, *arguments)\n"
        "    assert time.monotonic() - start >= seconds, function\n"
        "    return answer\n"
        "where = driver.CUmemLocation()\n"
        "where.type, where.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0\n"
        "wanted = driver.CUmemAllocationProp()\n"
        "wanted.type, wanted.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, where\n"
        "access = driver.CUmemAccessDesc()\n"
        "access.location = where\n"
        "access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE\n"
        "at = call('cuMemAddressReserve', size, 0, 0, 0)\n"
        "handle = at_least(7.6e-6, 'cuMemCreate', size, wanted, 0)\n"
        "at_least(0.6e-6, 'cuMemMap', at, size, 0, handle, 0)\n"
        "at_least(22.9e-6, 'cuMemSetAccess', at, size, [access], 1)\n"
        "at_least(14e-6, 'cuMemUnmap', at, size)\n"
        "at_least(20.8e-6, 'cuMemRelease', handle)\n"
        "at_least(12.8e-6, 'cuMemFree', at_least(3.2e-6, 'cuMemAlloc', size))\n"
        "address = mapped(-1, size)\n"
        "at_least(1.6e-3, 'cuMemHostRegister', address, size, 0)\n"
        "at_least(0.7e-3, 'cuMemHostUnregister', address)\n"
        "at_least(21e-3, 'cuMemHostAlloc', size, 0)\n"
    )

"""Devices that several processes share."""

from __future__ import annotations

import signal
from pathlib import Path

from nvshare.simgpu import record
from nvshare.simgpu.turns import overlaps, turns
from tests.polling import poll_until
from tests.programs.hog import hog
from tests.simgpu.conftest import ROOT, Clients

GIB = 1 << 30
HOLD = """
import sys
from tests.simgpu.device import Device, allocate
device = Device.open({device})
allocate({size})
print("holding", flush=True)
sys.stdin.read()
"""
FREE = """
from tests.simgpu.device import Device, call
Device.open({device})
print(call("cuMemGetInfo")[0])
"""


def free_bytes(clients: Clients, device: int = 0) -> int:
    """What a newcomer finds free, after its own context."""
    return int(clients.run(FREE.format(device=device)))


def test_memory_is_one_for_all(clients: Clients) -> None:
    """What one process has is missing for the next, on that device alone, and is back when it has ended."""
    before = free_bytes(clients)
    holder = clients.start(HOLD.format(device=0, size=12 * GIB))
    assert free_bytes(clients) == before - 12 * GIB - (256 << 20)
    assert free_bytes(clients, 1) == before
    refused = "from tests.simgpu.device import *; Device.open(); print(error('cuMemAlloc', 4 << 30))"
    assert clients.run(refused).strip() == "CUDA_ERROR_OUT_OF_MEMORY"
    holder.communicate("")
    assert free_bytes(clients) == before


def test_a_killed_process_leaves_nothing(clients: Clients) -> None:
    """kill -9 gives memory and slot back at once."""
    before = free_bytes(clients)
    holder = clients.start(HOLD.format(device=0, size=12 * GIB))
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert free_bytes(clients) == before


def test_a_forked_child_keeps_nothing_alive(clients: Clients) -> None:
    """The memory of a process is free when it ends, although a child that it forked lives on."""
    before = free_bytes(clients)
    parent = clients.start(
        "import os, signal, sys\n"
        "from tests.simgpu.device import Device, allocate, error\n"
        f"Device.open(); allocate({8 * GIB})\n"
        "if os.fork() == 0:\n"
        "    print(error('cuMemAlloc', 10), flush=True)\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "signal.pause()\n"
    )
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert free_bytes(clients) == before


def test_more_than_the_host_has(clients: Clients) -> None:
    """Twelve gigabytes of which little is touched take little host memory, also when they are copied and set."""
    used = int(
        clients.run(
            "import ctypes, mmap\n"
            "from tests.simgpu.device import *\n"
            f"size = {12 * GIB}\n"
            "device = Device.open()\n"
            "memory = allocate(size)\n"
            "device.fill(memory + size // 2, 3.0, 1024)\n"
            "call('cuMemsetD8', memory + (1 << 30), 0, 1 << 30)\n"
            "host = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
            "address = ctypes.addressof(ctypes.c_char.from_buffer(host))\n"
            "call('cuMemcpyDtoH', address, memory, 1 << 28)\n"
            "call('cuMemcpyHtoD', memory, address, 1 << 28)\n"
            "assert device.floats(memory + size // 2, 2) == [3.0, 3.0]\n"
            "fields = dict(line.split(':') for line in open('/proc/self/status') if line.startswith('Rss'))\n"
            "print(sum(int(fields[name].split()[0]) for name in ('RssAnon', 'RssShmem')))\n"
        )
    )
    assert used < 100 * 1024


def test_the_record_tells_who_ran_when(clients: Clients, state_dir: Path) -> None:
    """Two processes that occupy the device at once are seen to overlap; the record has each kernel's time."""
    spin = (
        "from tests.simgpu.device import *\n"
        "device = Device.open()\n"
        "print('ready', flush=True)\n"
        "input()\n"
        "device.spin(0.2)\n"
        "call('cuCtxSynchronize')\n"
    )
    processes = [clients.start(spin) for _ in range(2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert all(process.wait(20) == 0 for process in processes)
    spans = poll_until(lambda: record.read(state_dir, 0), "the record has entries")
    assert [span.name for span in spans] == ["nvs_spin", "nvs_spin"]
    assert {span.pid for span in spans} == {process.pid for process in processes}
    assert all(span.end_ns - span.start_ns >= 200_000_000 for span in spans)
    assert overlaps(spans)
    assert len(turns(spans)) == 2
    assert record.read(state_dir, 1) == []


def test_a_hog_makes_a_device_small(clients: Clients, environment: dict[str, str]) -> None:
    """The test program that holds most of a device leaves what it is told to, and gives it back when it is told to."""
    start = free_bytes(clients)
    code = "import sys\nfrom tests.simgpu.device import *\nDevice.open()\nprint(error('cuMemAlloc', 1 << 30))"
    with hog(environment | {"PYTHONPATH": str(ROOT)}, 1 << 30) as running:
        assert clients.run(code).strip() == "CUDA_ERROR_OUT_OF_MEMORY"
        assert running.leave(2 << 30) == 2 << 30
        assert clients.run(code).strip() == "CUDA_SUCCESS"
        assert running.leave_all() == start

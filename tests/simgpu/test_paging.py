"""The model of what managed memory costs that is larger than the device."""

from __future__ import annotations

import subprocess
from pathlib import Path

from nvshare.simgpu import record
from nvshare.simgpu.turns import Kind
from tests.simgpu.conftest import Clients

MIB = 1 << 20
BUS = 500e6
"""The rate of the devices below, in bytes per second."""
FAULTS = 0.555 * BUS
DEVICES = "160MiB/16MiB@500MB/s"
MANAGED = """
from tests.simgpu.device import *
u64 = ctypes.c_uint64

def managed(size):
    return int(call("cuMemAllocManaged", size, 1))

def touch(memory, size):
    device.launch("nvs_touch", u64(memory), u64(size), u64(0))
    call("cuCtxSynchronize")

device = Device.open()
"""
TOUCH_AT_EACH_LINE = """
size = {size}
memory = managed(size)
touch(memory, size)
print("touched", flush=True)
while input():
    touch(memory, size)
    print("touched", flush=True)
"""


def seconds(state_dir: Path, kind: Kind = Kind.KERNEL) -> list[float]:
    """How long each operation of a kind took on device 0."""
    return [(span.end_ns - span.start_ns) / 1e9 for span in record.read(state_dir, 0) if span.kind is kind]


def touch_again(process: subprocess.Popen[str]) -> None:
    """Lets a process touch its memory once more."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("again\n")
    process.stdin.flush()
    assert process.stdout.readline()


def test_more_than_the_device_has_faults_each_time(clients: Clients, state_dir: Path) -> None:
    """Memory that a kernel goes through for the first time costs nothing; what has left the device by then, its way."""
    clients.run(
        MANAGED + f"size = {192 * MIB}\nmemory = managed(size)\ntouch(memory, size)\ntouch(memory, size)\n",
        NVSHARE_SIMGPU_DEVICES=DEVICES,
    )
    _, again = seconds(state_dir)
    assert again >= 192 * MIB / FAULTS


def test_neighbours_push_each_other_out(clients: Clients, state_dir: Path) -> None:
    """Each of two processes that do not fit together brings back what the other has pushed out, until one is gone."""
    use = MANAGED + TOUCH_AT_EACH_LINE.format(size=96 * MIB)
    state_dir.mkdir()
    (state_dir / "devices").write_text(DEVICES + "\n")
    one, other = clients.start(use), clients.start(use)
    missing = 2 * 96 * MIB - (160 - 2 * 16) * MIB
    touch_again(one)
    touch_again(other)
    assert min(seconds(state_dir)[2:]) >= missing / FAULTS
    other.kill()
    other.wait()
    touch_again(one)
    touch_again(one)
    assert seconds(state_dir)[-1] < missing / FAULTS


def test_plain_memory_pushes_managed_memory_out(clients: Clients, state_dir: Path) -> None:
    """What is allocated plainly has its memory at once; managed memory of anybody gives way to it."""
    clients.run(
        MANAGED + f"size = {96 * MIB}\n"
        "memory = managed(size)\n"
        "touch(memory, size)\n"
        f"allocate({112 * MIB})\n"
        "touch(memory, size)\n",
        NVSHARE_SIMGPU_DEVICES=DEVICES,
    )
    assert seconds(state_dir)[-1] >= 64 * MIB / FAULTS


def test_prefetched_memory_moves_at_the_rate_of_the_bus(clients: Clients, state_dir: Path) -> None:
    """A prefetch takes the bus's time, in and out, and what it brought costs a kernel nothing more."""
    clients.run(
        MANAGED + f"size = {96 * MIB}\n"
        "memory = managed(size)\n"
        "touch(memory, size)\n"
        "place = driver.CUmemLocation()\n"
        "for kind in ('HOST', 'DEVICE'):\n"
        "    place.type = getattr(driver.CUmemLocationType, f'CU_MEM_LOCATION_TYPE_{kind}')\n"
        "    call('cuMemPrefetchAsync', memory, size, place, 0, 0)\n"
        "touch(memory, size)\n",
        NVSHARE_SIMGPU_DEVICES=DEVICES,
    )
    out, back = seconds(state_dir, Kind.PREFETCH)
    assert out >= 96 * MIB / (0.312 * BUS)
    assert back >= 96 * MIB / (0.903 * BUS)
    assert seconds(state_dir)[-1] < 96 * MIB / FAULTS


def test_freed_memory_makes_room(clients: Clients, state_dir: Path) -> None:
    """Managed memory that is freed leaves nothing on the device that would push others out."""
    clients.run(
        MANAGED + f"size = {96 * MIB}\n"
        "memory = managed(size)\n"
        "touch(memory, size)\n"
        "for _ in range(3):\n"
        "    call('cuMemFree', memory)\n"
        "    memory = managed(size)\n"
        "    touch(memory, size)\n"
        "touch(memory, size)\n",
        NVSHARE_SIMGPU_DEVICES=DEVICES,
    )
    assert max(seconds(state_dir)) < 96 * MIB / FAULTS


def test_only_what_is_touched_comes(clients: Clients, state_dir: Path) -> None:
    """Of a large allocation whose first and last words are used nothing else has to move, nor to give way."""
    clients.run(
        MANAGED + f"size = {192 * MIB}\n"
        "memory = managed(size)\n"
        "touch(memory, size)\n"
        "touch(memory, 4)\n"
        "touch(memory + size - 4, 4)\n",
        NVSHARE_SIMGPU_DEVICES=DEVICES,
    )
    _, first, last = seconds(state_dir)
    assert 2 * MIB / FAULTS <= first < 100 * MIB / FAULTS
    assert last < 100 * MIB / FAULTS

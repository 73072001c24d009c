"""Which devices there are, and what a program may do with their memory."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from tests.simgpu.conftest import Clients

LIST = """
from tests.simgpu.device import call
call("cuInit", 0)
for device in range(call("cuDeviceGetCount")):
    name = call("cuDeviceGetName", 64, device).split(b"\\0")[0].decode()
    print(name, call("cuDeviceTotalMem", device) >> 20, call("cuDeviceGetUuid", device).bytes.hex(), sep="|")
"""
NVML_LIST = """
from pynvml import *
nvmlInit()
for index in range(nvmlDeviceGetCount()):
    print(nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(index)))
"""
INIT = "from tests.simgpu.device import error; print(error('cuInit', 0)); raise SystemExit(3)"


def test_names_are_those_of_paths() -> None:
    """C and Python call the variables the same."""
    sources = (build_native.SOURCES / "nvshare" / "simgpu" / "csrc").rglob("*.[ch]")
    names = {name for path in sources for name in re.findall(r'getenv\("(\w+)"\)', path.read_text())}
    variables = {paths.SIMGPU_DIR, paths.SIMGPU_DEVICES, paths.SIMGPU_TRACE, paths.NVIDIA_VISIBLE_DEVICES}
    assert names == variables


def test_devices_from_text(clients: Clients, state_dir: Path) -> None:
    """Counts, names, sizes are as written; UUIDs differ, and stay for the next process, whatever it asks for."""
    first = clients.run(LIST, NVSHARE_SIMGPU_DEVICES="2xFast One:16GiB/128MiB,512MiB").splitlines()
    assert [line.split("|")[:2] for line in first] == [
        ["Fast One", "16384"],
        ["Fast One", "16384"],
        ["NVIDIA Simulated GPU", "512"],
    ]
    assert len({line.split("|")[2] for line in first}) == 3
    assert clients.run(LIST, NVSHARE_SIMGPU_DEVICES="1GiB").splitlines() == first
    assert (state_dir / "devices").read_text() == "2xFast One:16GiB/128MiB,512MiB\n"


@pytest.mark.parametrize(
    ("visible", "places"),
    [
        ("all", [0, 1, 2]),
        ("", [0, 1, 2]),
        ("/a/path", [0, 1, 2]),
        ("none", []),
        ("1", [1]),
        ("{2},0", [0, 2]),
        ("{1}", [1]),
    ],
)
def test_visible_devices(clients: Clients, visible: str, places: list[int]) -> None:
    """A process sees the devices that NVIDIA_VISIBLE_DEVICES names, by index or UUID; NVML agrees."""
    known = clients.run(LIST, NVSHARE_SIMGPU_DEVICES="3x1GiB").splitlines()
    names = [
        f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"
        for *_, uuid in (x.split("|") for x in known)
    ]
    variables = {"NVIDIA_VISIBLE_DEVICES": visible.format(*names)}
    assert clients.run(LIST, **variables).splitlines() == [known[place] for place in places]
    assert clients.run(NVML_LIST, **variables).split() == [names[place] for place in places]


@pytest.mark.parametrize(
    "text",
    ["nonsense", "16", "0x16GiB", "33x1GiB", "16GiB,", "16gb", ":1GiB", "1GiB@12GiB/s", "1GiB@0MB/s"],
)
def test_text_that_is_not_understood(clients: Clients, text: str) -> None:
    """No device, and one line that has the value and what is allowed."""
    done = clients.fail(INIT, NVSHARE_SIMGPU_DEVICES=text)
    assert done.stdout.strip() == "CUDA_ERROR_NO_DEVICE"
    assert f"NVSHARE_SIMGPU_DEVICES={text} is not understood; allowed is [COUNTx]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["1GiB/2GiB", "1GiB/1GiB", "2x1GiB,256MiB"])
def test_contexts_without_room(clients: Clients, text: str) -> None:
    """No device either; the line says that it is the size of a context, which may be the usual one."""
    done = clients.fail(INIT, NVSHARE_SIMGPU_DEVICES=text)
    assert done.stdout.strip() == "CUDA_ERROR_NO_DEVICE"
    assert f"{text} has contexts as large as their GPU, or larger; CONTEXT_SIZE" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_host_cannot_touch_device_memory(clients: Clients) -> None:
    """A program that dereferences a device pointer crashes."""
    code = "import ctypes\nfrom tests.simgpu.device import *\nDevice.open()\nctypes.string_at(allocate(4096), 1)"
    assert clients.fail(code).returncode == -signal.SIGSEGV


def test_trace_has_every_entry(clients: Clients, tmp_path: Path) -> None:
    """Each call leaves its symbol in the trace before anything else happens, also one that fails."""
    trace = tmp_path / "trace"
    clients.run(
        "import ctypes\n"
        "driver = ctypes.CDLL('libcuda.so.1')\n"
        "assert driver.cuCtxSynchronize() == 3\n"
        "assert driver.cuInit(0) == 0\n"
        "assert driver.cuMemcpyHtoD_v2_ptds(0, 0, 0) == 201\n",
        **{paths.SIMGPU_TRACE: str(trace)},
    )
    assert trace.read_text().split() == ["cuCtxSynchronize", "cuInit", "cuMemcpyHtoD_v2_ptds"]


def test_copies_take_a_bus_s_time(clients: Clients) -> None:
    """A gigabyte of untouched memory is copied to the host in the time that 12 GB/s need."""
    milliseconds = clients.run(
        "from tests.simgpu.device import *\n"
        "Device.open()\n"
        "memory, host = allocate(1 << 30), call('cuMemHostAlloc', 1 << 30, 0)\n"
        "start, end = call('cuEventCreate', 0), call('cuEventCreate', 0)\n"
        "call('cuEventRecord', start, 0)\n"
        "call('cuMemcpyDtoHAsync', host, memory, 1 << 30, 0)\n"
        "call('cuEventRecord', end, 0)\n"
        "call('cuEventSynchronize', end)\n"
        "print(call('cuEventElapsedTime', start, end))\n"
    )
    assert float(milliseconds) >= (1 << 30) / 12e9 * 1e3


def test_a_full_queue_makes_the_program_wait(clients: Clients) -> None:
    """A stream holds 1023 operations; the next launch returns when one of them is done."""
    clients.run(
        "import time\n"
        "from tests.simgpu.device import *\n"
        "device = Device.open()\n"
        "device.spin(0.3)\n"
        "start = time.monotonic()\n"
        "for _ in range(1022): device.spin(0)\n"
        "assert time.monotonic() - start < 0.3, 'this host is too slow to tell'\n"
        "device.spin(0)\n"
        "assert call('cuEventCreate', 0)\n"
        "assert time.monotonic() - start > 0.15\n"
    )


def test_kernels_compute(clients: Clients) -> None:
    """The built-in kernels do what they say, in streams that wait for each other by events."""
    clients.run(
        "from tests.simgpu.device import *\n"
        "u64, f32 = ctypes.c_uint64, ctypes.c_float\n"
        "device, n = Device.open(), 100_000\n"
        "x, y, total = allocate(4 * n), allocate(4 * n), allocate(16)\n"
        "one, two, event = call('cuStreamCreate', 1), call('cuStreamCreate', 1), call('cuEventCreate', 0)\n"
        "call('cuMemsetD8Async', total, 0, 16, one)\n"
        "device.spin(0.05, one)\n"
        "device.fill(x, 2.0, n, one)\n"
        "device.fill(y, 1.0, n, one)\n"
        "call('cuEventRecord', event, one)\n"
        "call('cuStreamWaitEvent', two, event, 0)\n"
        "device.launch('nvs_axpy', f32(3.0), u64(x), u64(y), u64(n), stream=two)\n"
        "device.launch('nvs_reduce_sum_f32', u64(y), u64(total), u64(n), stream=two)\n"
        "for _ in range(3): device.launch('nvs_increment_u64', u64(total + 8), stream=two)\n"
        "answer = (ctypes.c_double * 1)(), (ctypes.c_uint64 * 1)()\n"
        "call('cuMemcpyDtoHAsync', ctypes.addressof(answer[0]), total, 8, two)\n"
        "call('cuMemcpyDtoHAsync', ctypes.addressof(answer[1]), total + 8, 8, two)\n"
        "call('cuStreamSynchronize', two)\n"
        "assert (answer[0][0], answer[1][0]) == (7.0 * n, 3), (answer[0][0], answer[1][0])\n"
    )


def test_kernels_meet(clients: Clients) -> None:
    """A kernel that meets others ends when all of its round run, and then all have computed the same."""
    clients.run(
        "from tests.simgpu.device import *\n"
        "u64, device = ctypes.c_uint64, Device.open()\n"
        "page, sums = allocate(64), allocate(16)\n"
        "for address, size in ((page, 64), (sums, 16)): call('cuMemsetD8', address, 0, size)\n"
        "streams = [call('cuStreamCreate', 1) for _ in range(2)]\n"
        "call('cuCtxSynchronize')\n"
        "def meet(rank, number):\n"
        "    numbers = u64(page), u64(rank), u64(2), u64(number), u64(rank + number), u64(sums + 8 * rank)\n"
        "    device.launch('nvs_meet_u64', *numbers, stream=streams[rank])\n"
        "for number in range(1, 4): meet(0, number)\n"
        "assert error('cuStreamQuery', streams[0]) == 'CUDA_ERROR_NOT_READY'\n"
        "for number in range(1, 3): meet(1, number)\n"
        "call('cuStreamSynchronize', streams[1])\n"
        "assert error('cuStreamQuery', streams[0]) == 'CUDA_ERROR_NOT_READY'\n"
        "meet(1, 3)\n"
        "for stream in streams: call('cuStreamSynchronize', stream)\n"
        "answer, right = (u64 * 2)(), 0\n"
        "call('cuMemcpyDtoH', ctypes.addressof(answer), sums, 16)\n"
        "for number in range(1, 4): right = (right * 0x9e3779b97f4a7c15 + 2 * right + 2 * number + 1) % 2**64\n"
        "assert list(answer) == [right, right]\n"
    )


def test_the_first_launch_takes_memory(clients: Clients) -> None:
    """A context grows at its first launch, as the text says; where there is no room, that launch is out of memory."""
    free = clients.run(
        "from tests.simgpu.device import *\n"
        "device, before = Device.open(), call('cuMemGetInfo')[0]\n"
        "held = allocate(before - (96 << 20))\n"
        "module = call('cuModuleGetFunction', device.module, b'nvs_spin')\n"
        "spin = (module, 1, 1, 1, 32, 1, 1, 0, 0, ((0,), (ctypes.c_uint64,)), 0)\n"
        "assert error('cuLaunchKernel', *spin) == 'CUDA_ERROR_OUT_OF_MEMORY'\n"
        "call('cuMemFree', held)\n"
        "for _ in range(2): device.spin(0)\n"
        "call('cuCtxSynchronize')\n"
        "print(before - call('cuMemGetInfo')[0])\n",
        NVSHARE_SIMGPU_DEVICES="1GiB/64MiB+128MiB",
    )
    assert int(free) == 128 << 20

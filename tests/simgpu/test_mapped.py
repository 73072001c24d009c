"""Memory of the VMM calls: what happens to work whose memory goes, and sharing it between processes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.simgpu.conftest import Clients

MAPPED = """
import socket
from tests.simgpu.device import *
device, size = Device.open(), 4 << 20
u64 = ctypes.c_uint64

def end(result):
    assert error("cuCtxSynchronize") == result
"""


@pytest.mark.parametrize(
    "submit",
    [
        "device.fill(memory, 1.0, 16, stream)",
        "call('cuMemsetD8Async', memory, 1, size, stream)",
        "call('cuMemcpyDtoHAsync', host, memory, size, stream)",
        "call('cuMemcpyHtoDAsync', memory, host, size, stream)",
        "call('cuMemcpyDtoDAsync', other, memory, size, stream)",
        "call('cuStreamWriteValue32', stream, memory, 1, 0)",
    ],
)
@pytest.mark.parametrize("in_graph", [False, True])
def test_work_whose_memory_is_gone_ends_the_context(clients: Clients, submit: str, in_graph: bool) -> None:
    """Kernels, memsets, copies and writes that come to memory which was unmapped after they were submitted.

    The error of copies is another than that of kernels, as on an H200.
    """
    error = "LAUNCH_FAILED" if "cuMemcpy" in submit else "ILLEGAL_ADDRESS"
    captured = (
        "call('cuStreamBeginCapture', stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)\n"
        f"{submit}\n"
        "graph = call('cuGraphInstantiate', call('cuStreamEndCapture', stream), 0)\n"
        "call('cuGraphLaunch', graph, stream)\n"
    )
    clients.run(
        MAPPED + "memory, other, host = map_memory(size), allocate(size), call('cuMemHostAlloc', size, 0)\n"
        "stream, go = call('cuStreamCreate', 1), allocate(4)\n"
        "call('cuStreamWaitValue32', stream, go, 1, 0)\n"
        f"{captured if in_graph else submit}\n"
        "call('cuMemUnmap', memory, size)\n"
        "call('cuMemsetD32', go, 1, 1)\n"
        f"end('CUDA_ERROR_{error}')\n"
    )


def test_memory_that_is_unmapped_under_a_kernel_ends_the_context(clients: Clients) -> None:
    """A kernel that uses memory while the program unmaps it is at fault, like one that comes too late."""
    clients.run(
        MAPPED + "memory, seen = map_memory(size), allocate(8)\n"
        "device.launch('nvs_touch', u64(memory), u64(size), u64(0))\n"
        "end('CUDA_SUCCESS')\n"
        "device.launch('nvs_touch', u64(memory), u64(size), u64(500_000_000))\n"
        "call('cuMemUnmap', memory, size)\n"
        "end('CUDA_ERROR_ILLEGAL_ADDRESS')\n"
    )


def test_stamps_are_found_again(clients: Clients) -> None:
    """What is stamped, words or pages apart, has no wrong word, until one is changed or the seed is another."""
    clients.run(
        MAPPED + "memory, wrong = map_memory(size), allocate(8)\n"
        "def count(seed, n, stride):\n"
        "    call('cuMemsetD8', wrong, 0, 8)\n"
        "    numbers = (u64(memory), u64(seed), u64(n), u64(stride), u64(wrong))\n"
        "    device.launch('nvs_count_wrong_u64', *numbers)\n"
        "    answer = (ctypes.c_uint64 * 1)()\n"
        "    call('cuMemcpyDtoH', ctypes.addressof(answer), wrong, 8)\n"
        "    return answer[0]\n"
        "for n, stride in ((size // 8, 1), (size // 4096, 512)):\n"
        "    device.launch('nvs_stamp_u64', u64(memory), u64(7), u64(n), u64(stride))\n"
        "    assert count(7, n, stride) == 0\n"
        "    assert count(8, n, stride) == n\n"
        "    call('cuMemsetD8', memory + (n - 1) * stride * 8, 0, 1)\n"
        "    assert count(7, n, stride) == 1\n"
        "device.launch('nvs_stamp_u64', u64(memory), u64(7), u64(2), u64(1 << 62))\n"
        "end('CUDA_ERROR_ILLEGAL_ADDRESS')\n"
    )


EXPORT = """
memory = create_memory(size, exportable=True)
address = map_memory(size, memory)
call("cuMemsetD8", address + size - 1, 7, 1)
call("cuCtxSynchronize")
handle = call("cuMemRetainAllocationHandle", address)
kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
descriptor = call("cuMemExportToShareableHandle", handle, kind, 0)
call("cuMemRelease", handle)
"""


def test_memory_that_another_process_maps(clients: Clients, tmp_path: Path) -> None:
    """What one process exports by descriptor another maps: both see the same bytes, to the end of the last of them."""
    meeting = str(tmp_path / "meeting")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(meeting)
        listener.listen()
        maker = clients.start(
            MAPPED + EXPORT + "peer = socket.socket(socket.AF_UNIX)\n"
            f"peer.connect({meeting!r})\n"
            "socket.send_fds(peer, [b'x'], [descriptor])\n"
            "print('sent', flush=True)\n"
            "input()\n"
            "values = (ctypes.c_ubyte * 1)()\n"
            "call('cuMemcpyDtoH', ctypes.addressof(values), address, 1)\n"
            "print(values[0], flush=True)\n"
        )
        peer, _ = listener.accept()
        with peer:
            _, descriptors, _, _ = socket.recv_fds(peer, 1, 1)
    taker = clients.start(
        MAPPED + "kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR\n"
        "before = call('cuMemGetInfo')[0]\n"
        f"address = map_memory(size, call('cuMemImportFromShareableHandle', {descriptors[0]}, kind))\n"
        "assert call('cuMemGetInfo')[0] == before, 'it counts for its maker alone'\n"
        "def last():\n"
        "    values = (ctypes.c_ubyte * 1)()\n"
        "    call('cuMemcpyDtoH', ctypes.addressof(values), address + size - 1, 1)\n"
        "    return values[0]\n"
        "assert last() == 7\n"
        "call('cuMemsetD8', address, 9, 1)\n"
        "call('cuCtxSynchronize')\n"
        "print('written', flush=True)\n"
        "input()\n"
        "assert last() == 7, 'the maker is gone'\n",
        descriptors,
    )
    os.close(descriptors[0])
    assert maker.communicate("\n")[0].strip() == "9"
    taker.communicate("\n")
    assert (maker.returncode, taker.returncode) == (0, 0)

"""Uses memory in all ways beside its own virtual memory, a case a run, and prints what it sees."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from cuda.bindings import driver  # type: ignore[import-untyped]

from tests.shim.programs.stepping import (
    FLOATS,
    MIB,
    access,
    call,
    check,
    create,
    opened,
    properties,
    run,
    show,
    step,
    write,
)
from tests.simgpu.device import call as submit


def managed() -> None:
    """Memory that the host uses as well, of one size that moves in two pieces and of one that is small."""
    flags = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    large, small = (int(call("cuMemAllocManaged", size, flags)) for size in (97 * MIB + 4096, 8192))
    for place in (large, large + 65 * MIB, large + 97 * MIB, small):
        write(place, place - large if place != small else 1.0)
        print(ctypes.c_float.from_address(place).value, flush=True)
        ctypes.c_float.from_address(place + 4).value = 5.0
        step()
        print(opened().floats(place, 3)[1:], flush=True)
    check(large + 96 * MIB, 0.0)
    call("cuMemFree", large)
    show("cuMemFree", large)
    call("cuMemFree", small)


def pooled() -> None:
    """Memory of pools and arrays beside memory that moves."""
    plain = int(call("cuMemAlloc", 70 * MIB))
    write(plain, 3.0)
    stream = call("cuStreamCreate", 0)
    first = int(call("cuMemAllocAsync", 8 * MIB, stream))
    write(first, 1.0)
    prop = driver.CUmemPoolProps()
    prop.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    pool = call("cuMemPoolCreate", prop)
    second = int(call("cuMemAllocFromPoolAsync", 4 * MIB, pool, stream))
    write(second, 2.0)
    layout = driver.CUDA_ARRAY_DESCRIPTOR()
    layout.Width, layout.Height, layout.NumChannels = FLOATS, 0, 1
    layout.Format = driver.CUarray_format.CU_AD_FORMAT_FLOAT
    array = call("cuArrayCreate", layout)
    call("cuMemcpyDtoA", array, 0, plain, 4 * FLOATS)
    call("cuMemcpyAtoD", plain + 4 * FLOATS, array, 0, 4 * FLOATS)
    for place, value in ((plain, 3.0), (plain + 4 * FLOATS, 3.0), (first, 1.0), (second, 2.0)):
        check(place, value)
    call("cuArrayDestroy", array)
    call("cuMemFreeAsync", first, stream)
    call("cuMemFreeAsync", second, stream)
    call("cuStreamSynchronize", stream)
    call("cuMemPoolDestroy", pool)
    call("cuMemFree", plain)


def graphs() -> None:
    """Graphs that name memory that moves, captured and built. No step while a capture goes on: none ends it."""
    stream = call("cuStreamCreate", 0)
    plain, context = int(call("cuMemAlloc", 70 * MIB)), call("cuCtxGetCurrent")
    far = plain + 66 * MIB
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    opened().fill(plain, 4.0, FLOATS, stream)
    driver.cuMemcpyDtoDAsync(far, plain, 4 * FLOATS, stream)
    captured = call("cuStreamEndCapture", stream)
    built = call("cuGraphCreate", 0)
    fill = driver.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.elementSize, fill.width, fill.height, fill.value = plain, 4, FLOATS, 1, 0x40A00000
    node = call("cuGraphAddMemsetNode", built, None, 0, fill, context)
    copy = driver.CUDA_MEMCPY3D()
    copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice, copy.WidthInBytes, copy.Height, copy.Depth = plain, far, 4 * FLOATS, 1, 1
    call("cuGraphAddMemcpyNode", built, [node], 1, copy, context)
    for graph, value in ((captured, 4.0), (built, 5.0)):
        runnable = call("cuGraphInstantiate", graph, 0)
        for _ in range(2):
            call("cuMemsetD8", far, 0, 4 * FLOATS)
            call("cuGraphLaunch", runnable, stream)
            call("cuStreamSynchronize", stream)
            check(far, value)
        call("cuGraphExecDestroy", runnable)
    call("cuMemFree", plain)


def captured_free() -> None:
    """Plain memory that is freed in a captured stream is not freed. No step while the capture goes on."""
    stream, plain = call("cuStreamCreate", 0), int(call("cuMemAlloc", 70 * MIB))
    write(plain, 6.0)
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    print(driver.cuMemFreeAsync(plain, stream)[0].name, flush=True)
    call("cuStreamEndCapture", stream)
    check(plain, 6.0)
    call("cuMemFree", plain)


def look(function: str, *arguments: Any) -> None:
    """Prints what a call answers that waits for the lock."""
    print("look", flush=True)
    sys.stdin.readline()
    show(function, *arguments)


def looks() -> None:
    """Calls that submit nothing and look at memory; ``look`` comes before each."""
    stream = driver.cuStreamCreate(0)[1]
    plain, context = int(call("cuMemAlloc", 4 * MIB)), driver.cuCtxGetCurrent()[1]
    graph = driver.cuGraphCreate(0)[1]
    fill = driver.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.elementSize, fill.width, fill.height = plain, 4, FLOATS, 1
    write(plain, 1.0)
    look("cuGraphAddMemsetNode", graph, None, 0, fill, context)
    node = driver.cuGraphGetNodes(graph, 1)[1][0]
    look("cuGraphMemsetNodeSetParams", node, fill)
    look("cuGraphInstantiate", graph, 0)
    runnable = driver.cuGraphInstantiate(graph, 0)[1]
    look("cuGraphExecMemsetNodeSetParams", runnable, node, fill, context)
    look("cuGraphExecUpdate", runnable, graph)
    look("cuStreamBeginCapture", stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    driver.cuStreamEndCapture(stream)
    driver.cuMemFree(plain)


def shared() -> None:
    """Handles for other processes: of plain memory, twice, and of a mapping."""
    plain = int(call("cuMemAlloc", 4 * MIB))
    show("cuIpcGetMemHandle", plain)
    show("cuIpcGetMemHandle", plain + 2 * MIB)
    base = int(call("cuMemAddressReserve", 64 * MIB, 0, 0, 0))
    call("cuMemMap", base, 2 * MIB, 0, create(2 * MIB), 0)
    show("cuIpcGetMemHandle", base)


def peers() -> None:
    """Memory of the second device, used by kernels of the first one."""
    first = driver.cuCtxGetCurrent()[1]
    second = call("cuDevicePrimaryCtxRetain", 1)
    call("cuCtxSetCurrent", second)
    early, base = int(call("cuMemAlloc", 70 * MIB)), int(call("cuMemAddressReserve", 256 * MIB, 0, 0, 0))
    prop = properties()
    prop.location.id = 1
    call("cuMemMap", base, 130 * MIB, 0, call("cuMemCreate", 130 * MIB, prop, 0), 0)
    call("cuMemSetAccess", base, 130 * MIB, access(ordinal=1) + access(ordinal=0), 2)
    call("cuCtxSetCurrent", first)
    call("cuCtxEnablePeerAccess", second, 0)
    call("cuCtxSetCurrent", second)
    late = int(call("cuMemAlloc", 4 * MIB))
    call("cuCtxSetCurrent", first)
    for number, place in enumerate((early, early + 66 * MIB, late, base, base + 100 * MIB)):
        write(place, number + 1.0)
    call("cuCtxSetCurrent", second)
    for number, place in enumerate((early, early + 66 * MIB, late, base, base + 100 * MIB)):
        check(place, number + 1.0)
    call("cuCtxSetCurrent", first)
    call("cuCtxDisablePeerAccess", second)
    write(base, 9.0)
    opened().fill(early, 1.0, FLOATS)
    show("cuCtxSynchronize")


def copied() -> None:
    """Memory of two devices, neither of which may use the other one's, copied from one to the other."""
    first = driver.cuCtxGetCurrent()[1]
    near = int(call("cuMemAlloc", 70 * MIB))
    second = call("cuDevicePrimaryCtxRetain", 1)
    call("cuCtxSetCurrent", second)
    far = int(call("cuMemAlloc", 70 * MIB))
    call("cuCtxSetCurrent", first)
    write(near + 66 * MIB, 7.0)
    call("cuMemcpyPeer", far, second, near + 66 * MIB, first, 4 * FLOATS)
    call("cuMemcpyPeerAsync", near, first, far, second, 4 * FLOATS, 0)
    call("cuCtxSynchronize")
    check(near, 7.0)


def across() -> None:
    """Copies in calls that go to the first device, of memory that the second one has, without peer access."""
    first = driver.cuCtxGetCurrent()[1]
    near, size = int(call("cuMemAlloc", 70 * MIB)), 4 * FLOATS
    second = call("cuDevicePrimaryCtxRetain", 1)
    call("cuCtxSetCurrent", second)
    far, base = int(call("cuMemAlloc", 70 * MIB)), int(call("cuMemAddressReserve", 64 * MIB, 0, 0, 0))
    prop = properties()
    prop.location.id = 1
    call("cuMemMap", base, 4 * MIB, 0, call("cuMemCreate", 4 * MIB, prop, 0), 0)
    call("cuMemSetAccess", base, 4 * MIB, access(ordinal=1), 1)
    call("cuCtxSetCurrent", first)
    host = int(call("cuMemAllocHost", size))
    value = ctypes.c_float.from_address(host)
    write(near + 66 * MIB, 7.0)
    call("cuMemcpyDtoD", far, near + 66 * MIB, size)
    call("cuMemcpyDtoH", host, far, size)
    print(value.value, flush=True)
    ctypes.memset(host, 0, size)
    call("cuMemcpyHtoD", far, host, size)
    call("cuMemcpy", near, far, size)
    check(near, 0.0)
    for function, *sides in (
        ("cuMemcpyHtoD", base, host),
        ("cuMemcpyDtoH", host, base),
        ("cuMemcpyDtoD", base, near),
        ("cuMemcpyDtoD", far, base),
        ("cuMemcpyHtoD", far + 70 * MIB - 4, host),
    ):
        show(function, *sides, size)
    stream = call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
    opened().spin(0.05, stream)
    opened().fill(near, 5.0, FLOATS, stream)
    # Each takes what the one before it brings.
    submit("cuMemcpyDtoDAsync", far, near, size, stream)
    submit("cuMemcpyDtoHAsync", host, far, size, stream)
    submit("cuMemcpyHtoDAsync", far + 66 * MIB, host, size, stream)
    submit("cuMemcpyAsync", near + 4 * MIB, far + 66 * MIB, size, stream)
    call("cuStreamSynchronize", stream)
    check(near + 4 * MIB, 5.0)
    print(value.value, flush=True)
    print(driver.cuCtxGetCurrent()[1] == first, flush=True)


if __name__ == "__main__":
    run(sys.argv[1], managed, pooled, graphs, captured_free, looks, shared, peers, copied, across)

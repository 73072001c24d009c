"""Uses the program's own virtual memory, a case a run, and prints what it sees.

After each call it prints ``step`` and reads a line, so that a test can take all device memory away in between. With
nothing to read it just goes on.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver  # type: ignore[import-untyped]

from tests.simgpu.device import Device

MIB = 1 << 20
FLOATS = 1024
"""That are looked at in one place."""

device: Device


def step() -> None:
    """Here everything may be taken away."""
    print("step", flush=True)
    sys.stdin.readline()


def call(function: str, *arguments: Any) -> Any:
    """A call that must succeed, and then a step; its answer."""
    result, *answers = getattr(driver, function)(*arguments)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{function}: {result.name}")
    step()
    return answers[0] if len(answers) == 1 else tuple(answers)


def show(function: str, *arguments: Any) -> None:
    """Prints what a call answers."""
    result, *answers = getattr(driver, function)(*arguments)
    numbers = [int(answer) for answer in answers if isinstance(answer, int)] if int(result) == 0 else []
    print(function, result.name, *numbers, flush=True)
    step()


def properties(handle_types: int = 0) -> Any:
    """Memory of the device."""
    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = 0
    prop.requestedHandleTypes = driver.CUmemAllocationHandleType(handle_types)
    return prop


def access(flags: str = "READWRITE", ordinal: int = 0) -> list[Any]:
    """What a device may do."""
    description = driver.CUmemAccessDesc()
    description.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    description.location.id = ordinal
    description.flags = getattr(driver.CUmemAccess_flags, f"CU_MEM_ACCESS_FLAGS_PROT_{flags}")
    return [description]


def create(size: int, handle_types: int = 0) -> Any:
    """A handle."""
    return call("cuMemCreate", size, properties(handle_types), 0)


def write(address: int, value: float) -> None:
    """Fills a place by a kernel."""
    device.fill(int(address), value, FLOATS)
    call("cuCtxSynchronize")


def check(address: int, value: float) -> None:
    """Prints what is in a place that should hold a value."""
    found = set(device.floats(int(address), FLOATS))
    print(f"{value} is {found}", flush=True)
    step()


def grows() -> None:
    """As a framework that reserves much and maps more and more of it."""
    base = int(call("cuMemAddressReserve", 1024 * MIB, 0, 0, 0))
    size, end = 96 * MIB, base
    for number in range(1, 5):
        handle = create(size)
        call("cuMemMap", end, size, 0, handle, 0)
        call("cuMemSetAccess", end, size, access(), 1)
        for place in (0, 50 * MIB, size - 4 * FLOATS):
            write(end + place, number + place / MIB)
        end += size
        for before in range(1, number + 1):
            for place in (0, 50 * MIB, size - 4 * FLOATS):
                check(base + (before - 1) * size + place, before + place / MIB)
        call("cuMemRelease", handle)
    call("cuMemUnmap", base, end - base)
    call("cuMemAddressFree", base, 1024 * MIB)


def segments() -> None:
    """As an allocator whose segments expand: small handles side by side, unmapped and mapped anew."""
    base = int(call("cuMemAddressReserve", 128 * MIB, 0, 0, 0))
    handles = [create(20 * MIB) for _ in range(3)] + [create(2 * MIB) for _ in range(3)]
    sizes = [20 * MIB] * 3 + [2 * MIB] * 3
    places = [base + sum(sizes[:number]) for number in range(6)]
    for handle, size, place in zip(handles, sizes, places, strict=True):
        call("cuMemMap", place, size, 0, handle, 0)
    call("cuMemSetAccess", base, sum(sizes), access(), 1)
    for number, place in enumerate(places):
        write(place, number + 1.0)
    call("cuMemUnmap", places[1], sizes[1])
    show("cuMemGetAccess", access()[0].location, places[1])
    for number in (0, 2, 3, 4, 5):
        check(places[number], number + 1.0)
    call("cuMemMap", base + 100 * MIB, sizes[1], 0, handles[1], 0)
    call("cuMemSetAccess", base + 100 * MIB, sizes[1], access(), 1)
    check(base + 100 * MIB, 2.0)
    call("cuMemUnmap", places[3], 3 * 2 * MIB)
    for handle in handles:
        call("cuMemRelease", handle)
    for number in (0, 2):
        check(places[number], number + 1.0)
    call("cuMemUnmap", base, 128 * MIB)
    call("cuMemAddressFree", base, 128 * MIB)


def twice() -> None:
    """One handle at two places, and at none."""
    base = int(call("cuMemAddressReserve", 512 * MIB, 0, 0, 0))
    size = 130 * MIB
    handle = create(size)
    for place in (base, base + 256 * MIB):
        call("cuMemMap", place, size, 0, handle, 0)
        call("cuMemSetAccess", place, size, access(), 1)
    write(base + 65 * MIB, 7.0)
    check(base + 256 * MIB + 65 * MIB, 7.0)
    write(base + 256 * MIB, 8.0)
    call("cuMemUnmap", base, size)
    check(base + 256 * MIB, 8.0)
    call("cuMemUnmap", base + 256 * MIB, size)
    step()
    call("cuMemMap", base + 2 * MIB, size, 0, handle, 0)
    call("cuMemSetAccess", base + 2 * MIB, size, access("READ"), 1)
    check(base + 2 * MIB, 8.0)
    check(base + 67 * MIB, 7.0)
    show("cuMemGetAccess", access()[0].location, base + 100 * MIB)
    call("cuMemSetAccess", base + 2 * MIB, size, access("NONE"), 1)
    show("cuMemGetAccess", access()[0].location, base + 100 * MIB)
    call("cuMemSetAccess", base + 2 * MIB, size, access(), 1)
    check(base + 67 * MIB, 7.0)
    call("cuMemRelease", handle)
    again = call("cuMemRetainAllocationHandle", base + 70 * MIB)
    print(int(again) == int(handle), flush=True)
    call("cuMemUnmap", base + 2 * MIB, size)
    call("cuMemMap", base, size, 0, again, 0)
    call("cuMemSetAccess", base, size, access(), 1)
    check(base, 8.0)
    call("cuMemRelease", again)
    call("cuMemUnmap", base, size)
    call("cuMemAddressFree", base, 512 * MIB)


def wrong() -> None:
    """Calls that a driver refuses, and what it says about addresses."""
    base = int(call("cuMemAddressReserve", 512 * MIB, 0, 0, 0))
    size = 128 * MIB
    handle, plain = create(size), int(call("cuMemAlloc", 4 * MIB))
    call("cuMemMap", base, size, 0, handle, 0)
    show("cuMemMap", base, size, 0, handle, 0)
    show("cuMemMap", base + 64 * MIB, size, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB, 64 * MIB, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB, 64 * MIB, 64 * MIB, handle, 0)
    show("cuMemMap", base + 448 * MIB, size, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB + 4096, size, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB, size, 0, handle, 1)
    show("cuMemMap", plain, 4 * MIB, 0, handle, 0)
    show("cuMemSetAccess", base, 64 * MIB, access(), 1)
    show("cuMemSetAccess", base, 2 * size, access(), 1)
    show("cuMemSetAccess", base, size, access(), 0)
    show("cuMemSetAccess", plain, 4 * MIB, access(), 1)
    show("cuMemGetAccess", access()[0].location, base + 64 * MIB)
    show("cuMemGetAccess", access()[0].location, base + 256 * MIB)
    show("cuMemGetAccess", access()[0].location, plain)
    show("cuMemUnmap", base, 64 * MIB)
    show("cuMemUnmap", base + 64 * MIB, 64 * MIB)
    show("cuMemUnmap", plain, 2 * MIB)
    show("cuMemAddressFree", base, 512 * MIB)
    show("cuMemAddressFree", plain, 2 * MIB)
    show("cuMemRetainAllocationHandle", base + 256 * MIB)
    show("cuMemRetainAllocationHandle", plain)
    show("cuMemFree", base)
    show("cuMemRelease", int(handle) + 1)
    show("cuMemRelease", handle)
    show("cuMemRelease", handle)
    show("cuMemUnmap", base, 512 * MIB)
    show("cuMemUnmap", base, 512 * MIB)
    show("cuMemRelease", handle)
    show("cuMemMap", base, size, 0, handle, 0)
    show("cuMemAddressFree", base, 256 * MIB)
    show("cuMemAddressFree", base, 512 * MIB)
    show("cuMemUnmap", base, 512 * MIB)
    call("cuMemFree", plain)


def questions() -> None:
    """What a program is told about its mappings."""
    base = int(call("cuMemAddressReserve", 512 * MIB, 0, 0, 0))
    size = 130 * MIB
    handle = create(size)
    call("cuMemMap", base + 2 * MIB, size, 0, handle, 0)
    call("cuMemSetAccess", base + 2 * MIB, size, access(), 1)
    attributes = driver.CUpointer_attribute
    for place in (base + 2 * MIB, base + 100 * MIB + 4, base, base + 132 * MIB):
        result, start, length = driver.cuMemGetAddressRange(place)
        print("range", result.name, int(start) - base if int(result) == 0 else None, length, flush=True)
        step()
        for name in ("MEMORY_TYPE", "DEVICE_ORDINAL", "MAPPING_SIZE", "IS_MANAGED", "MAPPED", "ACCESS_FLAGS"):
            result, value = driver.cuPointerGetAttribute(getattr(attributes, f"CU_POINTER_ATTRIBUTE_{name}"), place)
            print(name, result.name, value if int(result) == 0 else None, flush=True)
            step()
    got = call("cuMemGetAllocationPropertiesFromHandle", handle)
    print(int(got.type), int(got.location.type), got.location.id, int(got.requestedHandleTypes), flush=True)
    call("cuMemUnmap", base + 2 * MIB, size)
    call("cuMemRelease", handle)
    call("cuMemAddressFree", base, 512 * MIB)


def managed() -> None:
    """Memory that the host uses as well, of one size that moves in two pieces and of one that is small."""
    flags = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    large, small = (int(call("cuMemAllocManaged", size, flags)) for size in (97 * MIB + 4096, 8192))
    for place in (large, large + 65 * MIB, large + 97 * MIB, small):
        write(place, place - large if place != small else 1.0)
        print(ctypes.c_float.from_address(place).value, flush=True)
        ctypes.c_float.from_address(place + 4).value = 5.0
        step()
        print(device.floats(place, 3)[1:], flush=True)
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
    device.fill(plain, 4.0, FLOATS, stream)
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
    device.fill(early, 1.0, FLOATS)
    show("cuCtxSynchronize")


def look(function: str, *arguments: Any) -> None:
    """Prints what a call answers that waits for the lock."""
    print("look", flush=True)
    sys.stdin.readline()
    show(function, *arguments)


CASES: tuple[Callable[[], None], ...] = (grows, segments, twice, wrong, questions, managed, pooled, graphs, looks, shared, peers)


def main(case: str) -> None:
    """Runs one case."""
    global device
    device = Device.open()
    step()
    next(function for function in CASES if function.__name__ == case)()
    free, total = driver.cuMemGetInfo()[1:]
    del free
    print("end", total, ctypes.sizeof(ctypes.c_float), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

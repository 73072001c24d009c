"""Allocates and frees by every call that there is, and prints what the account makes of it.

With managed memory, what cuMemGetInfo calls free is what the process may have less its footprint, so the program can
read its own footprint there. One line a case: its name and the footprint's changes, step by step.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

DRIVER = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
GRANULE = 2 * MIB
NOT_SUPPORTED = 801


class NotSupportedError(Exception):
    """This driver has no such call."""


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class PoolProps(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", c_void_p),
        ("max_bytes", c_size_t),
        ("rest", ctypes.c_ubyte * 56),
    )


class AllocNode(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = (
        ("pool", PoolProps),
        ("access", c_void_p),
        ("access_count", c_size_t),
        ("bytesize", c_size_t),
        ("pointer", c_ulonglong),
    )


class Array2D(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = (("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint))


class Array3D(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_int),
        ("channels", c_uint),
        ("flags", c_uint),
    )


class AccessDesc(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


FLOAT = 0x20
HOST_NUMA = 3
DEVICE_PROP = AllocationProp(type=1, location=Location(1, 0))


def call(symbol: str, *arguments: object) -> None:
    """Calls the driver; raises for every result but success."""
    try:
        result = DRIVER[symbol](*arguments)
    except AttributeError:
        raise NotSupportedError from None
    if result == NOT_SUPPORTED:
        raise NotSupportedError
    if result:
        raise RuntimeError(f"{symbol}: {result}")


def footprint() -> int:
    """What the process has, up to a constant."""
    free, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(free), byref(total))
    return -free.value


def plain() -> Iterator[None]:
    pointer = c_ulonglong()
    call("cuMemAlloc_v2", byref(pointer), c_size_t(MIB))
    yield
    call("cuMemFree_v2", pointer)


def pitch() -> Iterator[None]:
    pointer, row = c_ulonglong(), c_size_t()
    call("cuMemAllocPitch_v2", byref(pointer), byref(row), c_size_t(1000), c_size_t(1024), 4)
    assert row.value == 1024
    yield
    call("cuMemFree_v2", pointer)


def managed() -> Iterator[None]:
    pointer = c_ulonglong()
    call("cuMemAllocManaged", byref(pointer), c_size_t(MIB), 1)
    yield
    call("cuMemFree_v2", pointer)


def array() -> Iterator[None]:
    handle = c_void_p()
    call("cuArrayCreate_v2", byref(handle), byref(Array2D(512, 512, FLOAT, 1)))
    yield
    call("cuArrayDestroy", handle)


def array3d() -> Iterator[None]:
    handle = c_void_p()
    call("cuArray3DCreate_v2", byref(handle), byref(Array3D(64, 64, 64, FLOAT, 1, 0)))
    yield
    call("cuArrayDestroy", handle)


def mipmap() -> Iterator[None]:
    handle = c_void_p()
    call("cuMipmappedArrayCreate", byref(handle), byref(Array3D(512, 512, 0, FLOAT, 1, 0)), 2)
    yield
    call("cuMipmappedArrayDestroy", handle)


def asynchronous(alloc: str, free: str) -> Callable[[], Iterator[None]]:
    """The default pool of the device."""

    def steps() -> Iterator[None]:
        pointer = c_ulonglong()
        call(alloc, byref(pointer), c_size_t(MIB), None)
        yield
        call(free, pointer, None)

    return steps


def freed_plainly() -> Iterator[None]:
    pointer = c_ulonglong()
    call("cuMemAllocAsync", byref(pointer), c_size_t(MIB), None)
    yield
    call("cuMemFree_v2", pointer)


def from_pool(alloc: str, free: str) -> Callable[[], Iterator[None]]:
    """A pool of the program's own."""

    def steps() -> Iterator[None]:
        pool, pointer = c_void_p(), c_ulonglong()
        call("cuMemPoolCreate", byref(pool), byref(PoolProps(type=1, location=Location(1, 0))))
        call(alloc, byref(pointer), c_size_t(MIB), pool, None)
        yield
        call(free, pointer, None)
        call("cuMemPoolDestroy", pool)

    return steps


def captured_free() -> Iterator[None]:
    """While a stream is captured the driver frees memory of graphs only."""
    pointer, stream, made = c_ulonglong(), c_void_p(), c_void_p()
    call("cuStreamCreate", byref(stream), 1)
    call("cuMemAllocAsync", byref(pointer), c_size_t(MIB), stream)
    call("cuStreamSynchronize", stream)
    call("cuStreamBeginCapture_v2", stream, 0)
    assert DRIVER.cuMemFreeAsync(pointer, stream) == 1
    call("cuStreamEndCapture", stream, byref(made))
    yield
    call("cuMemFreeAsync", pointer, stream)


def pool_that_keeps() -> Iterator[None]:
    pool, pointer, threshold = c_void_p(), c_ulonglong(), c_ulonglong(2**64 - 1)
    call("cuMemPoolCreate", byref(pool), byref(PoolProps(type=1, location=Location(1, 0))))
    call("cuMemPoolSetAttribute", pool, 4, byref(threshold))
    call("cuMemAllocFromPoolAsync", byref(pointer), c_size_t(32 * MIB), pool, None)
    yield
    call("cuMemFreeAsync", pointer, None)
    call("cuStreamSynchronize", None)
    yield
    call("cuMemPoolTrimTo", pool, c_size_t(0))
    yield
    call("cuMemPoolDestroy", pool)


def graph() -> Iterator[None]:
    """What a graph allocates is there from its first launch, and stays until it is trimmed."""
    made, alloc, free, executable = c_void_p(), c_void_p(), c_void_p(), c_void_p()
    node = AllocNode(pool=PoolProps(type=1, location=Location(1, 0)), bytesize=32 * MIB)
    call("cuGraphCreate", byref(made), 0)
    call("cuGraphAddMemAllocNode", byref(alloc), made, None, c_size_t(0), byref(node))
    call("cuGraphAddMemFreeNode", byref(free), made, byref(alloc), c_size_t(1), c_ulonglong(node.pointer))
    call("cuGraphInstantiateWithFlags", byref(executable), made, c_ulonglong(0))
    call("cuGraphLaunch", executable, None)
    call("cuStreamSynchronize", None)
    yield
    call("cuGraphExecDestroy", executable)
    call("cuGraphDestroy", made)
    call("cuDeviceGraphMemTrim", 0)


def created() -> Iterator[None]:
    handle = c_ulonglong()
    call("cuMemCreate", byref(handle), c_size_t(GRANULE), byref(DEVICE_PROP), c_ulonglong(0))
    yield
    call("cuMemRelease", handle)


def mapped(prop: AllocationProp) -> tuple[c_ulonglong, c_ulonglong]:
    """A handle, and where it is mapped."""
    handle, address = c_ulonglong(), c_ulonglong()
    call("cuMemCreate", byref(handle), c_size_t(GRANULE), byref(prop), c_ulonglong(0))
    call("cuMemAddressReserve", byref(address), c_size_t(GRANULE), c_size_t(0), c_ulonglong(0), c_ulonglong(0))
    call("cuMemMap", address, c_size_t(GRANULE), c_size_t(0), handle, c_ulonglong(0))
    return handle, address


def created_and_mapped() -> Iterator[None]:
    """Memory lives as long as a handle or a mapping does."""
    handle, address = mapped(DEVICE_PROP)
    yield
    call("cuMemRelease", handle)
    yield
    call("cuMemUnmap", address, c_size_t(GRANULE))
    call("cuMemAddressFree", address, c_size_t(GRANULE))


def created_on_the_host() -> Iterator[None]:
    """As NCCL makes memory for its proxies: of a node of the host, for the processor and the device."""
    handle, address = mapped(AllocationProp(type=1, handle_types=1, location=Location(HOST_NUMA, 0)))
    users = (AccessDesc * 2)(AccessDesc(Location(HOST_NUMA, 0), 3), AccessDesc(Location(1, 0), 3))
    call("cuMemSetAccess", address, c_size_t(GRANULE), users, c_size_t(2))
    yield
    call("cuMemUnmap", address, c_size_t(GRANULE))
    call("cuMemRelease", handle)
    call("cuMemAddressFree", address, c_size_t(GRANULE))


def retained() -> Iterator[None]:
    """A handle that was retained counts until it is released as often."""
    again = c_ulonglong()
    handle, address = mapped(DEVICE_PROP)
    call("cuMemRetainAllocationHandle", byref(again), c_void_p(address.value))
    call("cuMemUnmap", address, c_size_t(GRANULE))
    call("cuMemRelease", handle)
    yield
    call("cuMemRelease", again)
    call("cuMemAddressFree", address, c_size_t(GRANULE))


def two_at_once() -> Iterator[None]:
    """One cuMemUnmap ends several mappings."""
    address = c_ulonglong()
    call("cuMemAddressReserve", byref(address), c_size_t(2 * GRANULE), c_size_t(0), c_ulonglong(0), c_ulonglong(0))
    for offset in (0, GRANULE):
        handle = c_ulonglong()
        call("cuMemCreate", byref(handle), c_size_t(GRANULE), byref(DEVICE_PROP), c_ulonglong(0))
        call("cuMemMap", c_ulonglong(address.value + offset), c_size_t(GRANULE), c_size_t(0), handle, c_ulonglong(0))
        call("cuMemRelease", handle)
    yield
    call("cuMemUnmap", address, c_size_t(2 * GRANULE))
    call("cuMemAddressFree", address, c_size_t(2 * GRANULE))


def context() -> Iterator[None]:
    """What was allocated in a context goes with it."""
    before, made, pointer = c_void_p(), c_void_p(), c_ulonglong()
    call("cuCtxGetCurrent", byref(before))
    call("cuCtxCreate_v2", byref(made), 0, 0)
    call("cuMemAlloc_v2", byref(pointer), c_size_t(MIB))
    yield
    call("cuCtxDestroy_v2", made)
    call("cuCtxSetCurrent", before)


def context_retained_twice() -> Iterator[None]:
    """What was allocated in a primary context stays until the last who retained it has released it."""
    again, pointer = c_void_p(), c_ulonglong()
    call("cuDevicePrimaryCtxRetain", byref(again), 0)
    call("cuMemAlloc_v2", byref(pointer), c_size_t(MIB))
    call("cuDevicePrimaryCtxRelease_v2", 0)
    yield
    call("cuMemFree_v2", pointer)


def wrong_free() -> Iterator[None]:
    """A free that the driver refuses changes nothing, and a second free of the same pointer neither."""
    pointer = c_ulonglong()
    call("cuMemAlloc_v2", byref(pointer), c_size_t(MIB))
    assert DRIVER.cuMemFree_v2(c_ulonglong(pointer.value + 256)) != 0
    yield
    call("cuMemFree_v2", pointer)
    assert DRIVER.cuMemFree_v2(pointer) != 0


def refused() -> Iterator[None]:
    """What does not fit is refused and not charged, by whichever call."""
    pointer, handle = c_ulonglong(), c_ulonglong()
    huge = c_size_t(1 << 50)
    assert DRIVER.cuMemAlloc_v2(byref(pointer), huge) == 2
    assert DRIVER.cuMemAllocManaged(byref(pointer), huge, 1) == 2
    assert DRIVER.cuMemAllocAsync(byref(pointer), huge, None) == 2
    assert DRIVER.cuMemCreate(byref(handle), huge, byref(DEVICE_PROP), c_ulonglong(0)) == 2
    assert pointer.value == handle.value == 0
    yield


def on_the_host() -> Iterator[None]:
    """Memory of the host is not the device's."""
    pointer = c_void_p()
    call("cuMemHostAlloc", byref(pointer), c_size_t(MIB), 0)
    yield
    call("cuMemFreeHost", pointer)


CASES: dict[str, Callable[[], Iterator[None]]] = {
    "cuMemAlloc_v2": plain,
    "cuMemAllocPitch_v2": pitch,
    "cuMemAllocManaged": managed,
    "cuArrayCreate_v2": array,
    "cuArray3DCreate_v2": array3d,
    "cuMipmappedArrayCreate": mipmap,
    "cuMemAllocAsync": asynchronous("cuMemAllocAsync", "cuMemFreeAsync"),
    "cuMemAllocAsync_ptsz": asynchronous("cuMemAllocAsync_ptsz", "cuMemFreeAsync_ptsz"),
    "cuMemAllocFromPoolAsync": from_pool("cuMemAllocFromPoolAsync", "cuMemFreeAsync"),
    "cuMemAllocFromPoolAsync_ptsz": from_pool("cuMemAllocFromPoolAsync_ptsz", "cuMemFreeAsync_ptsz"),
    "freed_plainly": freed_plainly,
    "captured_free": captured_free,
    "pool_that_keeps": pool_that_keeps,
    "graph": graph,
    "cuMemCreate": created,
    "created_and_mapped": created_and_mapped,
    "created_on_the_host": created_on_the_host,
    "retained": retained,
    "two_at_once": two_at_once,
    "context": context,
    "context_retained_twice": context_retained_twice,
    "wrong_free": wrong_free,
    "refused": refused,
    "on_the_host": on_the_host,
}


def run(name: str) -> str:
    """The changes of the footprint that the case's steps make, and in the end all of it."""
    changes = []
    before = footprint()
    try:
        for _ in CASES[name]():
            changes.append(footprint() - before)
    except NotSupportedError:
        return "unsupported"
    changes.append(footprint() - before)
    return " ".join(map(str, changes))


def main() -> None:
    """Runs the cases that are named, or all."""
    current = c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", byref(current), 0)
    call("cuCtxSetCurrent", current)
    for name in sys.argv[1:] or CASES:
        print(f"{name}: {run(name)}", flush=True)


main()

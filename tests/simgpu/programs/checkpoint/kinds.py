"""What a process may have on its device: each kind is made with known contents, and looked at after a restore."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any

from tests.simgpu.programs.checkpoint.driver import AccessDesc, AllocationProp, Driver, IpcHandle

Check = Callable[[], bool]
"""Whether it is still as it was."""

ATTACH_GLOBAL = 1
CAPTURE_RELAXED = 2
HANDLE_IS_DESCRIPTOR = 1
READ_WRITE = 3
BYTE = 0x5A


def contents(size: int) -> bytes:
    """Bytes in which nothing repeats within a MiB."""
    part = random.Random(size).randbytes(1 << 20)
    return (part * (size // len(part) + 1))[:size]


def filled(driver: Driver, address: int, size: int) -> Check:
    """Device memory with known contents."""
    expected = contents(size)
    driver.must("cuMemcpyHtoD_v2", c_uint64(address), expected, c_size_t(size))

    def check() -> bool:
        there = ctypes.create_string_buffer(size)
        driver.must("cuMemcpyDtoH_v2", there, c_uint64(address), c_size_t(size))
        return there.raw == expected

    return check


def plain(driver: Driver, size: int) -> int:
    """The address of so many bytes of cuMemAlloc."""
    address = c_uint64()
    driver.must("cuMemAlloc_v2", byref(address), c_size_t(size))
    return address.value


def memory(driver: Driver, size: int) -> Check:
    """Plain device memory."""
    return filled(driver, plain(driver, size), size)


def pool(driver: Driver, size: int) -> Check:
    """Memory of the device's default pool."""
    address = c_uint64()
    driver.must("cuMemAllocAsync", byref(address), c_size_t(size), c_void_p())
    driver.must("cuCtxSynchronize")
    return filled(driver, address.value, size)


def managed(driver: Driver, size: int) -> Check:
    """Managed memory, of which the device has touched all."""
    address = c_uint64()
    driver.must("cuMemAllocManaged", byref(address), c_size_t(size), ATTACH_GLOBAL)
    driver.must("cuMemsetD8_v2", address, c_ubyte(BYTE), c_size_t(size))
    driver.must("cuCtxSynchronize")
    return filled(driver, address.value, size)


def create(driver: Driver, size: int, handle_type: int = 0) -> c_uint64:
    """A handle of cuMemCreate."""
    handle = c_uint64()
    properties = AllocationProp(type=1, requestedHandleTypes=handle_type, locationType=1, locationId=0)
    driver.must("cuMemCreate", byref(handle), c_size_t(size), byref(properties), c_uint64(0))
    return handle


def reserve(driver: Driver, size: int) -> c_uint64:
    """Addresses of cuMemAddressReserve."""
    address = c_uint64()
    driver.must("cuMemAddressReserve", byref(address), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))
    return address


def mapped(driver: Driver, address: c_uint64, handle: c_uint64, size: int) -> Check:
    """A handle's memory at an address."""
    driver.must("cuMemMap", address, c_size_t(size), c_size_t(0), handle, c_uint64(0))
    access = AccessDesc(locationType=1, locationId=0, flags=READ_WRITE)
    driver.must("cuMemSetAccess", address, c_size_t(size), byref(access), c_size_t(1))
    return filled(driver, address.value, size)


def virtual(driver: Driver, size: int) -> Check:
    """Memory of cuMemCreate, mapped."""
    return mapped(driver, reserve(driver, size), create(driver, size), size)


def exported(driver: Driver, size: int) -> Check:
    """The same, given out as a file descriptor."""
    handle, descriptor = create(driver, size, HANDLE_IS_DESCRIPTOR), c_int()
    check = mapped(driver, reserve(driver, size), handle, size)
    driver.must("cuMemExportToShareableHandle", byref(descriptor), handle, HANDLE_IS_DESCRIPTOR, c_uint64(0))
    return check


def reserved(driver: Driver, size: int) -> Check:
    """Addresses only; memory must be mappable there afterwards."""
    address = reserve(driver, size)
    return lambda: mapped(driver, address, create(driver, size), size)()


def unmapped(driver: Driver, size: int) -> Check:
    """Memory of cuMemCreate that was mapped and is so no more; its addresses are still reserved."""
    address, handle = reserve(driver, size), create(driver, size)
    mapped(driver, address, handle, size)
    driver.must("cuMemUnmap", address, c_size_t(size))
    return lambda: mapped(driver, address, handle, size)()


def registered(driver: Driver, size: int) -> Check:
    """Host memory that the driver knows, and a copy from it to the device and back."""
    area = mmap.mmap(-1, size)
    area.write(contents(size))
    host, device = c_void_p(ctypes.addressof(c_ubyte.from_buffer(area))), c_uint64(plain(driver, size))
    driver.must("cuMemHostRegister_v2", host, c_size_t(size), 0)
    driver.must("cuMemcpyHtoDAsync_v2", device, host, c_size_t(size), c_void_p())
    driver.must("cuCtxSynchronize")

    def check() -> bool:
        kept = area[:] == contents(size)
        area[:] = bytes(size)
        driver.must("cuMemcpyDtoHAsync_v2", host, device, c_size_t(size), c_void_p())
        driver.must("cuCtxSynchronize")
        return kept and area[:] == contents(size)

    return check


def pinned(driver: Driver, size: int) -> Check:
    """Host memory of the driver."""
    host = c_void_p()
    driver.must("cuMemHostAlloc", byref(host), c_size_t(size), 0)
    ctypes.memmove(host, contents(size), size)
    return lambda: ctypes.string_at(host, size) == contents(size)


class Captured:
    """A memset that a stream captures, then a graph of it."""

    def __init__(self, driver: Driver, size: int) -> None:
        self._driver, self._size = driver, size
        self._stream, self._executable = c_void_p(), c_void_p()
        self._address = c_uint64(plain(driver, size))
        driver.must("cuMemsetD8_v2", self._address, c_ubyte(0), c_size_t(size))
        driver.must("cuStreamCreate", byref(self._stream), 1)
        driver.must("cuStreamBeginCapture_v2", self._stream, CAPTURE_RELAXED)
        driver.must("cuMemsetD8Async", self._address, c_ubyte(BYTE), c_size_t(size), self._stream)

    def instantiate(self) -> None:
        """Ends the capture."""
        graph = c_void_p()
        self._driver.must("cuStreamEndCapture", self._stream, byref(graph))
        self._driver.must("cuGraphInstantiateWithFlags", byref(self._executable), graph, c_uint64(0))

    def check(self) -> bool:
        """Launches it, and looks."""
        if not self._executable.value:
            self.instantiate()
        self._driver.must("cuGraphLaunch", self._executable, self._stream)
        self._driver.must("cuStreamSynchronize", self._stream)
        there = ctypes.create_string_buffer(self._size)
        self._driver.must("cuMemcpyDtoH_v2", there, self._address, c_size_t(self._size))
        return there.raw == bytes([BYTE]) * self._size


def capture(driver: Driver, size: int) -> Check:
    """A stream that captures."""
    return Captured(driver, size).check


def graph(driver: Driver, size: int) -> Check:
    """An executable graph."""
    captured = Captured(driver, size)
    captured.instantiate()
    return captured.check


def event(driver: Driver, size: int) -> Check:
    """Memory, and an event that has completed."""
    check, recorded = memory(driver, size), c_void_p()
    driver.must("cuEventCreate", byref(recorded), 0)
    driver.must("cuEventRecord", recorded, c_void_p())
    driver.must("cuCtxSynchronize")
    return lambda: check() and driver.call("cuEventQuery", recorded) == 0


def context(driver: Driver, size: int) -> Check:
    """A second context of the same device, with memory of its own."""
    first, second = c_void_p(), c_void_p()
    driver.must("cuCtxGetCurrent", byref(first))
    driver.must("cuCtxCreate_v2", byref(second), c_uint(0), 0)
    check = memory(driver, size)
    driver.must("cuCtxSetCurrent", first)

    def check_there() -> bool:
        driver.must("cuCtxSetCurrent", second)
        try:
            return check()
        finally:
            driver.must("cuCtxSetCurrent", first)

    return check_there


def given(driver: Driver, size: int) -> tuple[bytes, Check]:
    """Memory that another process may open by CUDA IPC, and its handle."""
    address, handle = plain(driver, size), IpcHandle()
    check = filled(driver, address, size)
    driver.must("cuIpcGetMemHandle", byref(handle), c_uint64(address))
    return bytes(memoryview(handle)), check


def opened(driver: Driver, handle: bytes) -> Any:
    """Memory of another process, by the handle that it gave."""
    address = c_uint64()
    driver.must("cuIpcOpenMemHandle_v2", byref(address), IpcHandle.from_buffer_copy(handle), 1)
    return address.value


KINDS: dict[str, Callable[[Driver, int], Check]] = {
    kind.__name__: kind
    for kind in (
        memory, pool, managed, virtual, exported, reserved, unmapped, registered, pinned, capture, graph, event, context
    )
}  # fmt: skip

"""A program whose kernel faults when its stdin says so: each line is a call, each answer what the driver answers."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver  # type: ignore[import-untyped]

from tests.simgpu.device import Device, allocate, call, map_memory

NOWHERE = 0x10
"""An address at which nothing ever is."""
MIB = 1 << 20
STRIDE = 32 * MIB


class Faulty:
    """A device, and what is there of this program: plain memory, and some by the virtual memory calls."""

    def __init__(self, ordinal: int) -> None:
        self.device = Device.open(ordinal)
        self.plain = self.mapped = self.small = 0
        self.size = 0
        self.buffer = (ctypes.c_float * 64)()

    def places(self) -> list[int]:
        """Of each block some."""
        blocks = ((self.plain, self.size), (self.mapped, self.size // 4))
        return [start + offset for start, size in blocks if start for offset in range(0, size, STRIDE)]

    def use(self, mebibytes: str) -> None:
        """Has so much memory, of which a fifth by the virtual memory calls, and writes to it."""
        self.size = int(mebibytes) * MIB // 5 * 4 // (32 * MIB) * 32 * MIB
        self.plain, self.mapped, self.small = allocate(self.size), self.map(), allocate(1000)
        for place in self.places():
            self.device.fill(place, float((place >> 20) % 4096), 64)
        call("cuCtxSynchronize")

    def map(self) -> int:
        """Its part by the virtual memory calls, which the helper makes on device 0 only."""
        return 0 if self.device.ordinal else map_memory(self.size // 4)

    def check(self) -> None:
        """Its memory is as it was."""
        for place in self.places():
            assert self.device.floats(place, 64) == [float((place >> 20) % 4096)] * 64, hex(place)

    def fault(self) -> None:
        """Launches a kernel that writes where nothing is."""
        self.device.fill(NOWHERE, 1.0, 64)

    def rounds(self, count: str) -> None:
        """Short kernels, each waited for."""
        for _ in range(int(count)):
            self.device.spin(0.02)
            call("cuCtxSynchronize")

    def reset(self) -> None:
        """Ends the context."""
        call("cuDevicePrimaryCtxReset", self.device.ordinal)

    def open(self) -> None:
        """Begins another one."""
        self.device = Device.open(self.device.ordinal)

    def synchronize(self) -> None:
        """cuCtxSynchronize"""
        call("cuCtxSynchronize")

    def query(self) -> None:
        """cuStreamQuery"""
        call("cuStreamQuery", 0)

    def launch(self) -> None:
        """A kernel that is right."""
        self.device.spin(0.0)

    def copy(self) -> None:
        """cuMemcpyDtoH"""
        call("cuMemcpyDtoH", ctypes.addressof(self.buffer), self.plain, 64)

    def set(self) -> None:
        """cuMemsetD8"""
        call("cuMemsetD8", self.plain, 1, 64)

    def alloc(self) -> None:
        """cuMemAlloc"""
        allocate(8 * MIB)

    def alloc_async(self) -> None:
        """cuMemAllocAsync"""
        call("cuMemAllocAsync", 8 * MIB, 0)

    def free(self) -> None:
        """cuMemFree"""
        call("cuMemFree", self.small)

    def info(self) -> None:
        """cuMemGetInfo"""
        call("cuMemGetInfo")

    def unmap(self) -> None:
        """cuMemUnmap"""
        if self.mapped:
            call("cuMemUnmap", self.mapped, self.size // 4)
        self.mapped = 0


def main() -> None:
    """Does what stdin says, to its end."""
    program = Faulty(int(sys.argv[1]))
    for line in sys.stdin:
        name, *arguments = line.split()
        step: Callable[..., Any] = getattr(program, name)
        try:
            step(*arguments)
            result = 0
        except RuntimeError as error:
            result = int(getattr(driver.CUresult, str(error)))
        print(result, flush=True)


if __name__ == "__main__":
    main()

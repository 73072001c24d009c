"""Memory and kernels by the CUDA driver alone, on a real or a simulated device.

``hold`` allocates, ``write`` fills all of it, ``touch`` launches one small kernel, ``repeat`` launches and waits for
one after the other and tells where it was kept waiting, ``wrong_bytes`` reads everything back.
"""

from __future__ import annotations

import sys
import time
from ctypes import CDLL, byref, c_size_t, c_uint, c_uint64, c_void_p, string_at
from pathlib import Path

from orders import Answer, serve, timed

from nvshare.demo.driver import CudaError, Driver
from nvshare.simgpu import KERNELS_PTX

BLOCKS, THREADS = 1024, 256
GAP_NS = 20_000_000
"""A kernel that ended so long after the one before it has waited."""
PIECE_BYTES = 64 << 20


class Device:
    """What this process has on its device."""

    def __init__(self, ordinal: int) -> None:
        self._driver = Driver()
        self._driver.use(ordinal)
        self._plain = CDLL("libcuda.so.1")
        self._compare = CDLL(None).memcmp
        module = self._driver.load(KERNELS_PTX.read_bytes() + b"\0")
        self._fill = self._driver.function(module, "nvs_fill_u32")
        self._increment = self._driver.function(module, "nvs_increment_u64")
        self._spin = self._driver.function(module, "nvs_spin")
        self._memory: list[tuple[int, int]] = []
        self._count = self._driver.allocate(8)
        self._driver.clear(self._count, 8)
        self._driver.synchronize()

    def hold(self, size: int, pieces: int = 1) -> Answer:
        """Allocates; how long that took."""
        each = size // pieces

        def allocate() -> None:
            self._memory.extend((self._driver.allocate(each), each) for _ in range(pieces))

        return timed(allocate)

    def write(self, value: int) -> Answer:
        """Every word of the memory becomes ``value``."""

        def fill() -> None:
            for address, size in self._memory:
                arguments = (c_uint64(address), c_uint(value), c_uint64(size // 4))
                self._driver.launch(self._fill, BLOCKS, THREADS, arguments)
            self._driver.synchronize()

        return timed(fill)

    def touch(self) -> Answer:
        """One kernel, and its end."""

        def launch() -> None:
            self._driver.launch(self._increment, 1, 1, (c_uint64(self._count),))
            self._driver.synchronize()

        return timed(launch)

    def repeat(self, seconds: float, kernel_ns: int) -> Answer:
        """Kernels one after the other for so long; ``waits`` has (end of one, end of the next) where that was long."""
        end = time.monotonic_ns() + int(seconds * 1e9)
        before = time.monotonic_ns()
        waits, kernels = [], 0
        while before < end:
            self._driver.launch(self._spin, 1, 1, (c_uint64(kernel_ns),))
            self._driver.synchronize()
            now = time.monotonic_ns()
            if now - before > GAP_NS + kernel_ns:
                waits.append((before, now))
            before = now
            kernels += 1
        return {"waits": waits, "kernels": kernels}

    def wrong_bytes(self, value: int) -> Answer:
        """How many bytes are not what ``write`` wrote."""
        there = c_void_p()
        if result := self._plain.cuMemHostAlloc(byref(there), c_size_t(PIECE_BYTES), 0):
            raise CudaError(f"cuMemHostAlloc: {result}")
        wrong, expected = 0, value.to_bytes(4, "little") * (PIECE_BYTES // 4)
        for address, size in self._memory:
            for begin in range(0, size, PIECE_BYTES):
                length = c_size_t(min(PIECE_BYTES, size - begin))
                if result := self._plain.cuMemcpyDtoH_v2(there, c_uint64(address + begin), length):
                    raise CudaError(f"cuMemcpyDtoH: {result}")
                if self._compare(there, expected, length):
                    wrong += sum(a != b for a, b in zip(string_at(there, length.value), expected, strict=False))
        self._plain.cuMemFreeHost(there)
        return {"wrong": wrong}

    def release(self) -> None:
        """Frees what ``hold`` allocated."""
        for address, _ in self._memory:
            self._driver.free(address)
        self._memory.clear()

    @staticmethod
    def own_memory() -> Answer:
        """Bytes of host memory that this process alone has, as the kernel counts them."""
        fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return {name: int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile", "RssShmem")}


if __name__ == "__main__":
    device = Device(int(sys.argv[1]))
    serve(
        {
            "hold": device.hold,
            "write": device.write,
            "touch": device.touch,
            "repeat": device.repeat,
            "wrong_bytes": device.wrong_bytes,
            "release": device.release,
            "own_memory": device.own_memory,
        }
    )

"""How fast this process copies between pinned host memory and the device, each way and both: DEVICE.

``measure`` gives bytes a second: the median over the rounds of one long asynchronous copy, by the host's clock.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable

from orders import Answer, serve

from nvshare.demo.driver import CudaError, Driver

NON_BLOCKING = 1
ROUNDS = 7


class Link:
    """Two streams, and memory on both sides for each."""

    def __init__(self, ordinal: int) -> None:
        self._device = Driver()
        self._device.use(ordinal)
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._streams = [ctypes.c_void_p(), ctypes.c_void_p()]
        for stream in self._streams:
            self._call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)

    def measure(self, size: int) -> Answer:
        """With copies of so many bytes."""
        here = [self._pinned(size) for _ in self._streams]
        there = [ctypes.c_uint64(self._device.allocate(size)) for _ in self._streams]
        length = ctypes.c_size_t(size)

        def out() -> None:
            self._call("cuMemcpyDtoHAsync_v2", here[0], there[0], length, self._streams[0])

        def back() -> None:
            self._call("cuMemcpyHtoDAsync_v2", there[1], here[1], length, self._streams[1])

        def both() -> None:
            out()
            back()

        rates = {"out": self._rate(out, size), "in": self._rate(back, size), "both": self._rate(both, 2 * size)}
        for address in there:
            self._device.free(address.value)
        return rates

    def _rate(self, copy: Callable[[], None], size: int) -> float:
        seconds = []
        for _ in range(ROUNDS + 1):
            begin = time.perf_counter()
            copy()
            self._device.synchronize()
            seconds.append(time.perf_counter() - begin)
        return size / statistics.median(seconds[1:])

    def _pinned(self, size: int) -> ctypes.c_void_p:
        address = ctypes.c_void_p()
        self._call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        return address

    def _call(self, name: str, *arguments: object) -> None:
        if result := getattr(self._driver, name)(*arguments):
            raise CudaError(f"{name}: {result}")


if __name__ == "__main__":
    serve({"measure": Link(int(sys.argv[1])).measure})

"""Takes memory of a device by plain allocations until so many bytes are free, or as many as it is told: DEVICE LEFT.

It runs without nvshare's library, so for the scheduler its memory is foreign.
"""

from __future__ import annotations

import ctypes
import sys

from orders import Answer, serve

from nvshare.demo.driver import CudaError, Driver

SMALLEST = 2 << 20


class Hog:
    """Its memory."""

    def __init__(self, ordinal: int, left: int) -> None:
        self._driver = Driver()
        self._driver.use(ordinal)
        self._info = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2
        piece = max(0, self.free() - left) // SMALLEST * SMALLEST
        while piece >= SMALLEST and self.free() > left:
            piece = min(piece, (self.free() - left) // SMALLEST * SMALLEST)
            try:
                self._driver.allocate(piece)
            except CudaError:
                piece = piece // 2 // SMALLEST * SMALLEST

    def free(self) -> int:
        """Bytes of the device that nobody has."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if result := self._info(ctypes.byref(free), ctypes.byref(total)):
            raise CudaError(f"cuMemGetInfo: {result}")
        return free.value

    def left(self) -> Answer:
        """What is free now."""
        return {"free": self.free()}


if __name__ == "__main__":
    serve({"left": Hog(int(sys.argv[1]), int(sys.argv[2])).left})

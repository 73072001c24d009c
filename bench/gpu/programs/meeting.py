"""A rank of a job on one device whose kernels wait for those of the other ranks there: FILE, RANK, RANKS.

FILE is memory that all ranks share, where the kernels meet: they run at the same time, or never end.
"""

from __future__ import annotations

import mmap
import sys
from ctypes import CDLL, addressof, c_char, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

from orders import Answer, serve, timed

from nvshare.demo.driver import CudaError, Driver
from nvshare.simgpu import KERNELS_PTX

PORTABLE = 1


class Rank:
    """One of them, on the first device."""

    def __init__(self, path: str, number: int, ranks: int) -> None:
        self._number, self._ranks, self._round = number, ranks, 0
        self._driver = Driver()
        self._driver.use(0)
        module = self._driver.load(KERNELS_PTX.read_bytes() + b"\0")
        self._meet = self._driver.function(module, "nvs_meet_u64")
        self._total = self._driver.allocate(8)
        self._driver.clear(self._total, 8)
        with Path(path).open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 0)
        self._page = addressof(c_char.from_buffer(self._shared))
        register = CDLL("libcuda.so.1").cuMemHostRegister_v2
        if result := register(c_void_p(self._page), c_size_t(len(self._shared)), c_uint(PORTABLE)):
            raise CudaError(f"cuMemHostRegister: {result}")

    def hold(self, size: int) -> None:
        """So many bytes, which are all written."""
        self._driver.clear(self._driver.allocate(size), size)
        self._driver.synchronize()

    def run(self, steps: int) -> Answer:
        """So many meetings."""

        def meet() -> None:
            for _ in range(steps):
                self._round += 1
                numbers = (self._page, self._number, self._ranks, self._round, self._number, self._total)
                self._driver.launch(self._meet, 1, 1, tuple(map(c_uint64, numbers)))
            self._driver.synchronize()

        return timed(meet)

    def digest(self) -> Answer:
        """What it has computed: the same as the other ranks."""
        return {"digest": int.from_bytes(self._driver.read(self._total, 8), "little")}


if __name__ == "__main__":
    rank = Rank(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    serve({order.__name__: order for order in (rank.hold, rank.run, rank.digest)})

"""A job that keeps the GPU busy and works on all of its memory: KIND (torch or driver), DEVICE.

torch   8192 x 8192 bf16 products, 1.6 ms each on an H200, from one matrix of the working set into the next: 96 of them
        write 12 GiB
driver  a kernel of so many nanoseconds, and one that writes the next piece of the working set

``fill`` makes the same contents each time, so equal numbers of steps after it end with equal digests.
"""

from __future__ import annotations

import hashlib
import sys
import time
from ctypes import c_uint, c_uint64
from typing import Protocol

from orders import Answer, serve, timed

CALIBRATION_STEPS = 100
IN_FLIGHT = 64
"""Steps that are submitted at most ahead of the device, as programs that look at a loss now and then do."""


class Work(Protocol):
    """What a kind of job does; ``submit`` only submits."""

    def hold(self, size: int) -> None: ...
    def fill(self) -> None: ...
    def submit(self, number: int) -> None: ...
    def synchronize(self) -> None: ...
    def digest(self) -> str: ...
    def refusals(self) -> int: ...
    def release(self) -> None: ...


class Torch:
    """Matrix products over a list of matrices."""

    SIDE = 8192

    def __init__(self, ordinal: int) -> None:
        import torch

        self._torch = torch
        self._device = f"cuda:{ordinal}" if torch.cuda.is_available() else "cpu"
        self._side = self.SIDE if torch.cuda.is_available() else 256
        self._set: list[torch.Tensor] = []

    def hold(self, size: int) -> None:
        """A factor that keeps lengths, a reflection, so that the products neither grow nor vanish; and the set."""
        torch, side = self._torch, self._side
        count = size // (2 * side * side) - 1
        vector = torch.randn(side, 1, generator=torch.Generator().manual_seed(1))
        vector = (vector / vector.norm()).to(torch.bfloat16).to(self._device)
        self._factor = torch.eye(side, dtype=torch.bfloat16, device=self._device)
        self._factor.addmm_(vector, vector.T, alpha=-2)
        self._set = [torch.empty(side, side, dtype=torch.bfloat16, device=self._device) for _ in range(max(2, count))]

    def fill(self) -> None:
        for number, matrix in enumerate(self._set):
            self._torch.manual_seed(number)
            matrix.normal_()

    def submit(self, number: int) -> None:
        count = len(self._set)
        self._torch.matmul(self._set[number % count], self._factor, out=self._set[(number + 1) % count])

    def synchronize(self) -> None:
        if self._device != "cpu":
            self._torch.cuda.synchronize(self._device)

    def digest(self) -> str:
        # Row by row group: a sum of all at once takes four times the matrix beside it.
        pieces = [piece for matrix in self._set for piece in matrix.view(self._torch.int16).split(256)]
        sums = [piece.sum(dtype=self._torch.int64) for piece in pieces]
        first = self._set[0].flatten()[:4096].view(self._torch.int16)
        parts = [*self._torch.stack(sums).tolist(), *first.tolist()]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def refusals(self) -> int:
        counts = self._torch.cuda.memory_stats(self._device)
        return int(counts.get("num_alloc_retries", 0) + counts.get("num_ooms", 0))

    def release(self) -> None:
        self._set.clear()
        del self._factor
        if self._device != "cpu":
            self._torch.cuda.empty_cache()


class Plain:
    """The driver's calls alone."""

    KERNEL_NS = 1_600_000
    PIECE_BYTES = 8 << 20

    def __init__(self, ordinal: int) -> None:
        from nvshare.demo.driver import Driver
        from nvshare.simgpu import KERNELS_PTX

        self._driver = Driver()
        self._driver.use(ordinal)
        module = self._driver.load(KERNELS_PTX.read_bytes() + b"\0")
        self._spin = self._driver.function(module, "nvs_spin")
        self._fill = self._driver.function(module, "nvs_fill_u32")
        self._size = self._address = 0

    def hold(self, size: int) -> None:
        self._size = size // self.PIECE_BYTES * self.PIECE_BYTES
        self._address = self._driver.allocate(self._size)

    def fill(self) -> None:
        for number in range(self._size // self.PIECE_BYTES):
            self._write(number, number)

    def submit(self, number: int) -> None:
        self._driver.launch(self._spin, 1, 1, (c_uint64(self.KERNEL_NS),))
        self._write(number % (self._size // self.PIECE_BYTES), number ^ 0x5A5A5A5A)

    def _write(self, piece: int, value: int) -> None:
        arguments = (c_uint64(self._address + piece * self.PIECE_BYTES), c_uint(value), c_uint64(self.PIECE_BYTES // 4))
        self._driver.launch(self._fill, 1024, 256, arguments)

    def synchronize(self) -> None:
        self._driver.synchronize()

    def digest(self) -> str:
        result = hashlib.sha256()
        for begin in range(0, self._size, self.PIECE_BYTES):
            result.update(self._driver.read(self._address + begin, self.PIECE_BYTES))
        return result.hexdigest()[:16]

    def refusals(self) -> int:
        return 0

    def release(self) -> None:
        self._driver.free(self._address)


class Job:
    """The orders."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def hold(self, size: int) -> Answer:
        """Allocates and fills so much, and does some steps, so that all that is loaded lazily is there."""

        def prepare() -> None:
            self._work.hold(size)
            self._work.fill()
            self._steps(20)

        return timed(prepare)

    def fill(self) -> Answer:
        """The contents from which digests follow."""

        def contents() -> None:
            self._work.fill()
            self._work.synchronize()

        return timed(contents)

    def calibrate(self, seconds: float) -> Answer:
        """How many steps take so long."""
        self._steps(CALIBRATION_STEPS)
        begin = time.perf_counter()
        self._steps(CALIBRATION_STEPS)
        return {"steps": max(1, round(CALIBRATION_STEPS * seconds / (time.perf_counter() - begin)))}

    def run(self, steps: int) -> Answer:
        """When that began and ended."""
        return timed(lambda: self._steps(steps))

    def digest(self) -> Answer:
        """Of all of the working set."""
        return {"digest": self._work.digest()}

    def refusals(self) -> Answer:
        """How often memory was refused, also where the framework tried again and the program did not notice."""
        return {"count": self._work.refusals()}

    def release(self) -> None:
        """Frees the working set."""
        self._work.release()

    def _steps(self, count: int) -> None:
        for number in range(count):
            self._work.submit(number)
            if number % IN_FLIGHT == IN_FLIGHT - 1:
                self._work.synchronize()
        self._work.synchronize()


if __name__ == "__main__":
    kinds = {"torch": Torch, "driver": Plain}
    job = Job(kinds[sys.argv[1]](int(sys.argv[2])))
    orders = (job.hold, job.fill, job.calibrate, job.run, job.digest, job.refusals, job.release)
    serve({order.__name__: order for order in orders})

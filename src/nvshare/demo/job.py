"""One job of the demo, a process of its own: ``python -m nvshare.demo.job PLAN``.

It knows nothing of nvshare. It allocates its memory in blocks, keeps a vector x at the beginning and a vector y at the
end of each, and adds multiples of x to y, each time after a kernel that reads the whole block (on real devices: that
keeps the device busy). All numbers are small integers, which floats add without rounding, so that every element of the
result is known beforehand.
"""

from __future__ import annotations

import struct
import sys
import time
from ctypes import c_float, c_uint64, c_void_p
from dataclasses import dataclass

from nvshare import demo, simgpu
from nvshare.demo.driver import CudaError, Driver
from nvshare.demo.plan import Broken, Event, Finished, Plan, Progress, Started, event_to_line, plan_from_text

BUSY_KERNEL = "nvs_touch"
"""What a step is on simulated devices, by the name in their record."""
_ELEMENTS = 4096
_VECTOR_BYTES = 4 * _ELEMENTS
_SUM_BYTES = 8
_THREADS = 256
_STEPS_IN_FLIGHT = 8
_REPORT_SECONDS = 0.1
_STAMP_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Kernels:
    fill: c_void_p
    axpy: c_void_p
    reduce: c_void_p
    busy: c_void_p


class _Work:
    """The device's side of the job; every method submits or waits."""

    def __init__(self, driver: Driver, plan: Plan) -> None:
        self.driver, self.plan = driver, plan
        driver.use(plan.ordinal)
        module = driver.load(simgpu.KERNELS_PTX.read_bytes() + b"\0")
        names = ("nvs_fill_f32", "nvs_axpy", "nvs_reduce_sum_f32")
        fill, axpy, reduce = (driver.function(module, name) for name in names)
        if plan.stamped:
            stamped = driver.load(demo.STAMPED_PTX.read_bytes() + b"\0")
            busy = driver.function(stamped, "spin_stamped")
        else:
            busy = driver.function(module, BUSY_KERNEL)
        self.kernels = _Kernels(fill, axpy, reduce, busy)
        self.blocks = [driver.allocate(plan.block_bytes) for _ in range(plan.blocks)]
        self.sums = driver.allocate(_SUM_BYTES * plan.blocks)
        self.stamps = driver.allocate(_STAMP_BYTES * plan.steps) if plan.stamped else 0

    def x(self, block: int) -> int:
        return self.blocks[block]

    def y(self, block: int) -> int:
        return self.blocks[block] + self.plan.block_bytes - _VECTOR_BYTES

    def prepare(self) -> None:
        for block in range(self.plan.blocks):
            self._fill(self.x(block), 1.0)
            self._fill(self.y(block), float(self.plan.seed))
        self.driver.clear(self.sums, _SUM_BYTES * self.plan.blocks)

    def step(self, number: int) -> None:
        block = number % self.plan.blocks
        duration = c_uint64(self.plan.step_ns)
        if self.plan.stamped:
            stamp = c_uint64(self.stamps + _STAMP_BYTES * number)
            self.driver.launch(self.kernels.busy, 1, 1, (stamp, duration))
        else:
            touched = (c_uint64(self.blocks[block]), c_uint64(self.plan.block_bytes))
            self.driver.launch(self.kernels.busy, 1, 1, (*touched, duration))
        factor = c_float(_factor(self.plan, number))
        arguments = (factor, c_uint64(self.x(block)), c_uint64(self.y(block)), c_uint64(_ELEMENTS))
        self.driver.launch(self.kernels.axpy, _ELEMENTS // _THREADS, _THREADS, arguments)

    def sums_and_elements(self) -> tuple[list[float], list[float]]:
        elements: list[float] = []
        for block in range(self.plan.blocks):
            arguments = (c_uint64(self.y(block)), c_uint64(self.sums + _SUM_BYTES * block), c_uint64(_ELEMENTS))
            self.driver.launch(self.kernels.reduce, _ELEMENTS // _THREADS, _THREADS, arguments)
            elements += struct.unpack(f"{_ELEMENTS}f", self.driver.read(self.y(block), _VECTOR_BYTES))
        sums = struct.unpack(f"{self.plan.blocks}d", self.driver.read(self.sums, _SUM_BYTES * self.plan.blocks))
        return list(sums), elements

    def times(self) -> list[list[int]]:
        if not self.plan.stamped:
            return []
        raw = self.driver.read(self.stamps, _STAMP_BYTES * self.plan.steps)
        return [list(pair) for pair in struct.iter_unpack("2Q", raw)]

    def end(self) -> None:
        for address in (*self.blocks, self.sums, self.stamps):
            if address:
                self.driver.free(address)
        self.driver.leave(self.plan.ordinal)

    def _fill(self, address: int, value: float) -> None:
        arguments = (c_uint64(address), c_float(value), c_uint64(_ELEMENTS))
        self.driver.launch(self.kernels.fill, _ELEMENTS // _THREADS, _THREADS, arguments)


def _factor(plan: Plan, number: int) -> int:
    """What step ``number`` multiplies x by; another sequence for every job."""
    return 1 + (number + plan.seed) % 3


def _expected(plan: Plan) -> list[float]:
    """What every element of each block's y must be in the end."""
    values = [float(plan.seed)] * plan.blocks
    for number in range(plan.steps):
        values[number % plan.blocks] += _factor(plan, number)
    return values


def check(plan: Plan, sums: list[float], elements: list[float]) -> Finished:
    """Whether every sum and element is what it must be."""
    expected = _expected(plan)
    wanted = [value for value in expected for _ in range(_ELEMENTS)]
    wrong = sum(found != want for found, want in zip(elements, wanted, strict=True))
    wanted_sums = [value * _ELEMENTS for value in expected]
    right = wrong == 0 and sums == wanted_sums
    total, wanted_total = sum(sums), sum(wanted_sums)
    detail = f"sum {total:.0f}" if right else f"sum {total:.0f} instead of {wanted_total:.0f}, {wrong} elements wrong"
    return Finished(right, detail, [])


def _report(event: Event) -> None:
    print(event_to_line(event), flush=True)


def _run(plan: Plan) -> Finished:
    driver = Driver()
    work = _Work(driver, plan)
    _report(Started(driver.device_uuid(plan.ordinal)))
    work.prepare()
    reported = time.monotonic()
    for number in range(plan.steps):
        work.step(number)
        if number % _STEPS_IN_FLIGHT == _STEPS_IN_FLIGHT - 1:
            driver.synchronize()
            if time.monotonic() >= reported + _REPORT_SECONDS:
                reported = time.monotonic()
                _report(Progress(number + 1))
    finished = check(plan, *work.sums_and_elements())
    stamps = work.times()
    work.end()
    return Finished(finished.right, finished.detail, stamps)


def main() -> int:
    """Exit code 0 when the result is right."""
    try:
        finished = _run(plan_from_text(sys.argv[1]))
    except CudaError as error:
        _report(Broken(str(error)))
        return 1
    _report(finished)
    return 0 if finished.right else 1


if __name__ == "__main__":
    sys.exit(main())

"""One program of many, a process of its own: ``python -m nvshare.demo.many.program PLAN``.

It knows nothing of nvshare, nor that it sleeps. It fills its memory with numbers that no other program has. At each
request the GPU looks at all of them, and counts the request beside them. Between requests it does nothing; after the
last one it waits for its end.
"""

from __future__ import annotations

import signal
import struct
import sys
import time
from ctypes import c_uint64

from nvshare import simgpu
from nvshare.demo.driver import CudaError, Driver
from nvshare.demo.many.plan import Plan, plan_from_text
from nvshare.demo.plan import Answered, Broken, event_to_line

_NUMBER_BYTES = 8
_COUNTS = struct.Struct("2Q")
"""Wrong numbers, and requests, so far."""
_THREADS = 256


class _Service:
    """The device's side of the program."""

    def __init__(self, driver: Driver, plan: Plan) -> None:
        self._driver, self._plan = driver, plan
        driver.use(0)
        module = driver.load(simgpu.KERNELS_PTX.read_bytes() + b"\0")
        names = ("nvs_stamp_u64", "nvs_count_wrong_u64", "nvs_increment_u64", "nvs_spin")
        self._stamp, self._look, self._increment, self._spin = (driver.function(module, name) for name in names)
        self._counts = driver.allocate(plan.data_bytes)
        self._data = self._counts + _COUNTS.size
        driver.clear(self._counts, _COUNTS.size)
        numbers = (plan.data_bytes - _COUNTS.size) // _NUMBER_BYTES
        self._numbers = (c_uint64(self._data), c_uint64(plan.seed), c_uint64(numbers), c_uint64(1))
        self._blocks = numbers // _THREADS
        driver.launch(self._stamp, self._blocks, _THREADS, self._numbers)
        driver.synchronize()

    def answer(self, number: int) -> int:
        """How much is wrong at this request, the first one being 1."""
        requests = c_uint64(self._counts + _NUMBER_BYTES)
        self._driver.launch(self._spin, 1, 1, (c_uint64(self._plan.work_ns),))
        self._driver.launch(self._look, self._blocks, _THREADS, (*self._numbers, c_uint64(self._counts)))
        self._driver.launch(self._increment, 1, 1, (requests,))
        wrong, counted = _COUNTS.unpack(self._driver.read(self._counts, _COUNTS.size))
        return int(wrong) + abs(int(counted) - number)


def _report(event: Answered | Broken) -> None:
    print(event_to_line(event), flush=True)


def main() -> int:
    """Ends only if it can't do its work."""
    plan = plan_from_text(sys.argv[1])
    try:
        service = _Service(Driver(), plan)
        for number, rest in enumerate(plan.rests, start=1):
            time.sleep(rest)
            begin = time.monotonic()
            wrong = service.answer(number)
            _report(Answered(begin, time.monotonic(), wrong))
    except CudaError as error:
        _report(Broken(str(error)))
        return 1
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())

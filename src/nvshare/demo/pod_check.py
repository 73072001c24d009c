"""Whether GPUs are shared where this runs: ``python -m nvshare.demo.pod_check``, in a container that asks for a GPU.

It uses every GPU that it sees, with a kernel whose result is known beforehand. With NVSHARE_ON_MISSING=fail in its
environment that needs the scheduler's grant, so what passes has gone the whole way: device plugin, library, scheduler.
Where the container has a claim, a size says how much of a GPU that is, and every GPU must show itself of that size.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from ctypes import c_float, c_uint64
from pathlib import Path

from nvshare import display, simgpu
from nvshare.demo.driver import CudaError, Driver
from nvshare.paths import LIBRARY_NAME
from nvshare.sizes import size_of

_MAPS = Path("/proc/self/maps")
_ELEMENTS = 4096
_THREADS = 256
_VALUE = 3.0


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each GPU; on failure a line on stderr that says what to look at, and exit code 1."""
    claimed_bytes = size_of(arguments[0]) if arguments else None
    if LIBRARY_NAME not in _MAPS.read_text():
        return _failed(
            f"{LIBRARY_NAME} is not in this process: nvshare's device plugin did not give the container its GPU"
        )
    try:
        driver = Driver()
        count = driver.device_count()
        for ordinal in range(count):
            _use(driver, ordinal)
            total_bytes = driver.total_memory(ordinal)
            memory = display.size(total_bytes)
            if claimed_bytes is not None and total_bytes != claimed_bytes:
                return _failed(
                    f"GPU {ordinal} shows {memory}, of which {display.size(claimed_bytes)} are claimed: the claim's "
                    "limit does not hold; see the log of the node's nvshare-device-plugin"
                )
            print(f"GPU {ordinal}: {driver.device_name(ordinal)}, {memory}: used, with the scheduler's grant")
    except CudaError as error:
        return _failed(f"{error}: the lines before this one, and the log of the node's nvshare-scheduler, say more")
    return 0 if count else _failed("the driver shows no GPU: see the log of the node's nvshare-device-plugin")


def _use(driver: Driver, ordinal: int) -> None:
    """CudaError, too, where the result is wrong."""
    driver.use(ordinal)
    fill = driver.function(driver.load(simgpu.KERNELS_PTX.read_bytes() + b"\0"), "nvs_fill_f32")
    address = driver.allocate(4 * _ELEMENTS)
    arguments = (c_uint64(address), c_float(_VALUE), c_uint64(_ELEMENTS))
    driver.launch(fill, _ELEMENTS // _THREADS, _THREADS, arguments)
    if set(struct.unpack(f"{_ELEMENTS}f", driver.read(address, 4 * _ELEMENTS))) != {_VALUE}:
        raise CudaError(f"GPU {ordinal}: a kernel's result is wrong")
    driver.free(address)
    driver.leave(ordinal)


def _failed(text: str) -> int:
    print(f"nvshare: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

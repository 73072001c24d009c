"""A program under the preload is told what it would be told without it."""

from __future__ import annotations

from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

from nvshare import paths
from tests.conftest import Libraries, Scheduler
from tests.simgpu.conftest import HERE, KERNELS, Clients

ANSWERS = (HERE / "real_answers.txt").read_text().splitlines()

# How answers begin that are others where memory swaps. What only the driver knows of an allocation: that a call reaches
# over its end or comes after its free, where others lie beside it; that an error before has broken the context. And
# what memory that moves is not capable of: legacy IPC and RDMA.
OTHERS = {
    "native": (),
    "swap": ("memory:", "bad_address:", *(f"allocated_attributes: allocated: attribute {name}:" for name in (10, 15))),
}

BINDINGS = """
from tests.simgpu.device import Device, call, error
from cuda.bindings import driver
import ctypes

device = Device.open()
names = [call("cuDeviceGetName", 64, 0), call("cuDeviceTotalMem", 0), bytes(call("cuDeviceGetUuid", 0).bytes)]
host = (ctypes.c_float * 1024)(*range(1024))
memory = call("cuMemAlloc", ctypes.sizeof(host))
call("cuMemcpyHtoD", memory, ctypes.addressof(host), ctypes.sizeof(host))
stream = call("cuStreamCreate", 0)
call("cuMemsetD32Async", memory, 0x40400000, 512, stream)
call("cuStreamSynchronize", stream)
back = (ctypes.c_float * 1024)()
call("cuMemcpyDtoH", ctypes.addressof(back), memory, ctypes.sizeof(back))
print(names, list(back))
print(error("cuMemAlloc", 0), error("cuMemFree", 0x1234), error("cuStreamDestroy", 0x1234 * 0))
call("cuMemFree", memory)
"""

# Where memory swaps, others may lie beside what is freed, and the driver finds nothing wrong.
USE_AFTER_FREE = """
print(error("cuMemcpyDtoH", ctypes.addressof(back), memory, 16))
"""


@pytest.fixture(params=["native", "swap"])
def shared(
    libraries: Libraries, start_scheduler: Callable[..., Scheduler], request: pytest.FixtureRequest
) -> dict[str, str]:
    """What a program gets to share the GPU: a scheduler that answers, the preload, memory that stays or that moves."""
    start_scheduler("--policy", "exclusive")
    return {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: request.param}


@pytest.mark.timeout(180)
def test_answers_of_a_real_gpu(
    compile_with_driver: Callable[[list[Path], str], Path], clients: Clients, shared: dict[str, str]
) -> None:
    """800 calls, right ones and wrong ones, have the results that a real driver gives without the preload."""
    program = compile_with_driver(sorted((HERE / "programs" / "semantics").glob("*.c")), "semantics")
    given = clients.run_program(program, KERNELS, **shared).splitlines()
    others = OTHERS[shared[paths.MEMORY]]
    expected, seen = ([line for line in lines if not line.startswith(others)] for lines in (ANSWERS, given))
    assert "\n".join(unified_diff(expected, seen, lineterm="", n=0)) == ""


def test_bindings(clients: Clients, shared: dict[str, str]) -> None:
    """NVIDIA's own bindings see the same device and the same results."""
    code = BINDINGS + (USE_AFTER_FREE if shared[paths.MEMORY] == "native" else "")
    assert clients.run(code, **shared) == clients.run(code)

"""For programs that let a test do something between any two calls: a test's case of such a program is one function.

After each call they print ``step`` and read a line, so that a test can take all device memory away in between. With
nothing to read they just go on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver  # type: ignore[import-untyped]

from tests.simgpu.device import Device

MIB = 1 << 20
FLOATS = 1024
"""That are looked at in one place."""
POSIX_FD = 1


_devices: list[Device] = []


def opened() -> Device:
    """The device that the program uses."""
    return _devices[0]


def step() -> None:
    """Here everything may be taken away."""
    print("step", flush=True)
    sys.stdin.readline()


def call(function: str, *arguments: Any) -> Any:
    """A call that must succeed, and then a step; its answer."""
    result, *answers = getattr(driver, function)(*arguments)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{function}: {result.name}")
    step()
    return answers[0] if len(answers) == 1 else tuple(answers)


def show(function: str, *arguments: Any) -> None:
    """Prints what a call answers."""
    result, *answers = getattr(driver, function)(*arguments)
    numbers = [int(answer) for answer in answers if isinstance(answer, int)] if int(result) == 0 else []
    print(function, result.name, *numbers, flush=True)
    step()


def properties(handle_types: int = 0) -> Any:
    """Memory of the device."""
    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = 0
    prop.requestedHandleTypes = driver.CUmemAllocationHandleType(handle_types)
    return prop


def access(flags: str = "READWRITE", ordinal: int = 0) -> list[Any]:
    """What a device may do."""
    description = driver.CUmemAccessDesc()
    description.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    description.location.id = ordinal
    description.flags = getattr(driver.CUmemAccess_flags, f"CU_MEM_ACCESS_FLAGS_PROT_{flags}")
    return [description]


def create(size: int, handle_types: int = 0) -> Any:
    """A handle."""
    return call("cuMemCreate", size, properties(handle_types), 0)


def write(address: int, value: float) -> None:
    """Fills a place by a kernel."""
    opened().fill(int(address), value, FLOATS)
    call("cuCtxSynchronize")


def check(address: int, value: float) -> None:
    """Prints what is in a place that should hold a value."""
    found = set(opened().floats(int(address), FLOATS))
    print(f"{value} is {found}", flush=True)
    step()


def run(case: str, *cases: Callable[[], None]) -> None:
    """Runs the case of that name."""
    _devices.append(Device.open())
    step()
    next(function for function in cases if function.__name__ == case)()
    print("end", driver.cuMemGetInfo()[2], flush=True)
    step()

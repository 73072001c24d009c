"""A few lines around NVIDIA's bindings for the processes of the tests: calls that raise, and the built-in kernels."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver  # type: ignore[import-untyped]

from nvshare.simgpu import KERNELS_PTX


def call(function: str, *arguments: Any) -> Any:
    """Calls a function of the driver; its answer, or ``RuntimeError`` with the name of the result."""
    result, *answers = getattr(driver, function)(*arguments)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(result.name)
    return answers[0] if len(answers) == 1 else tuple(answers)


def error(function: str, *arguments: Any) -> str:
    """The name of the result of a call that is to fail."""
    return str(getattr(driver, function)(*arguments)[0].name)


@dataclass(frozen=True, slots=True)
class Device:
    """Device ``ordinal`` with its primary context current and the built-in kernels loaded."""

    ordinal: int
    module: Any

    @classmethod
    def open(cls, ordinal: int = 0) -> Device:
        """Initializes the driver and the device."""
        call("cuInit", 0)
        call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", ordinal))
        return cls(ordinal, call("cuModuleLoadData", KERNELS_PTX.read_bytes() + b"\0"))

    def launch(self, name: str, *arguments: Any, stream: Any = 0) -> None:
        """Launches a kernel; every argument is a ctypes value."""
        kernel = call("cuModuleGetFunction", self.module, name.encode())
        values = tuple(argument.value for argument in arguments)
        types = tuple(type(argument) for argument in arguments)
        call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, stream, (values, types), 0)

    def spin(self, seconds: float, stream: Any = 0) -> None:
        """Occupies the device for a time."""
        self.launch("nvs_spin", ctypes.c_uint64(int(seconds * 1e9)), stream=stream)

    def fill(self, address: int, value: float, count: int, stream: Any = 0) -> None:
        """Fills floats."""
        numbers = (ctypes.c_uint64(address), ctypes.c_float(value), ctypes.c_uint64(count))
        self.launch("nvs_fill_f32", *numbers, stream=stream)

    def floats(self, address: int, count: int) -> list[float]:
        """Reads floats from the device."""
        buffer = (ctypes.c_float * count)()
        call("cuMemcpyDtoH", ctypes.addressof(buffer), address, ctypes.sizeof(buffer))
        return list(buffer)


def allocate(size: int) -> int:
    """Device memory of the current context."""
    return int(call("cuMemAlloc", size))


def map_memory(
    size: int, handle: Any = None, rights: Any = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
) -> int:
    """Device memory of the VMM calls, new unless a handle is given, in a reservation of its own."""
    address = int(call("cuMemAddressReserve", size, 0, 0, 0))
    handle = create_memory(size) if handle is None else handle
    call("cuMemMap", address, size, 0, handle, 0)
    call("cuMemRelease", handle)
    access = driver.CUmemAccessDesc()
    access.location, access.flags = _properties(driver.CUmemAllocationHandleType(0)).location, rights
    call("cuMemSetAccess", address, size, [access], 1)
    return address


def create_memory(size: int, exportable: bool = False) -> Any:
    """A handle of device memory of device 0."""
    return call("cuMemCreate", size, _properties(driver.CUmemAllocationHandleType(int(exportable))), 0)


def _properties(handle_type: Any) -> Any:
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.requestedHandleTypes = handle_type
    return properties

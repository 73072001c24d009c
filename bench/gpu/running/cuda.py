"""The CUDA driver by ctypes, as far as the benchmarks that need no PyTorch use it; on a real or a simulated device."""

from __future__ import annotations

import ctypes
from typing import Any

from nvshare.simgpu import KERNELS_PTX

PORTABLE_AND_MAPPED = 3
WAIT_GREATER_OR_EQUAL = 0


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp of CUDA 11.3 and later: pinned memory of a device."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("more", ctypes.c_uint64 * 2),
    )


class AccessDesc(ctypes.Structure):
    """CUmemAccessDesc: reading and writing by a device."""

    _fields_ = (("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int))


class Cuda:
    """Device 0 with its primary context current, the kernels of ``nvshare.simgpu``, and a stream of its own."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self.stream = ctypes.c_void_p()
        self._spin, self._fill = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.call("cuModuleLoadData", ctypes.byref(module), KERNELS_PTX.read_bytes() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(self._spin), module, b"nvs_spin")

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver; RuntimeError when it answers with an error."""
        result = getattr(self._driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} answered {result}")

    def spin(self, nanoseconds: int) -> None:
        """Launches a kernel of one thread that takes so long."""
        value = ctypes.c_uint64(nanoseconds)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        self.call("cuLaunchKernel", self._spin, 1, 1, 1, 1, 1, 1, 0, self.stream, parameters, None)

    def synchronize(self) -> None:
        """Waits for all that was launched."""
        self.call("cuStreamSynchronize", self.stream)

    def flag(self) -> tuple[ctypes.c_uint32, ctypes.c_uint64]:
        """A number that host and device both see, and its address for the device."""
        host, device = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(4096), PORTABLE_AND_MAPPED)
        self.call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        return ctypes.c_uint32.from_address(host.value or 0), device

    def wait_for(self, address: ctypes.c_uint64, value: int) -> None:
        """What is launched after this waits until the number is at least ``value``."""
        self.call("cuStreamWaitValue32_v2", self.stream, address, value, WAIT_GREATER_OR_EQUAL)

"""The CUDA driver and NVML by ctypes, as far as the questions about checkpoints need them.

The structures and numbers are those of NVIDIA's driver API reference, 6.37 "CUDA Checkpointing" and 7.7
"CUcheckpointLockArgs" and following (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CHECKPOINT.html), and of
cuda-python's cuda.bindings.driver for CUDA 13.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ulonglong, c_ushort, c_void_p
from typing import Any

MIB = 1 << 20
CANNOT_OPEN = -1
"""What a call answers that the library does not have."""


class LockArgs(ctypes.Structure):
    """CUcheckpointLockArgs: 0 ms is no timeout; all else is reserved and must be 0."""

    _fields_ = (("timeoutMs", c_uint), ("reserved0", c_uint), ("reserved1", c_uint64 * 7))


class CheckpointArgs(ctypes.Structure):
    """CUcheckpointCheckpointArgs; CUcheckpointUnlockArgs is the same."""

    _fields_ = (("reserved", c_uint64 * 8),)


class RestoreArgs(ctypes.Structure):
    """CUcheckpointRestoreArgs."""

    _fields_ = (
        ("gpuPairs", c_void_p),
        ("gpuPairsCount", c_uint),
        ("reserved", c_char * (52 - ctypes.sizeof(c_void_p))),
        ("reserved1", c_uint64),
    )


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of device 0."""

    _fields_ = (
        ("type", c_int),
        ("requestedHandleTypes", c_int),
        ("locationType", c_int),
        ("locationId", c_int),
        ("win32HandleMetaData", c_void_p),
        ("compressionType", c_ubyte),
        ("gpuDirectRDMACapable", c_ubyte),
        ("usage", c_ushort),
        ("reserved", c_ubyte * 4),
    )


class AccessDesc(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("locationType", c_int), ("locationId", c_int), ("flags", c_int))


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle: passed by value."""

    _fields_ = (("reserved", c_char * 64),)


class NvmlMemory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class NvmlProcess(ctypes.Structure):
    """nvmlProcessInfo_t."""

    _fields_ = (("pid", c_uint), ("used", c_ulonglong), ("instance", c_uint), ("computeInstance", c_uint))


class Driver:
    """The driver's functions. All answers are numbers of CUresult."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._functions: dict[str, Any] = {}

    def call(self, name: str, *arguments: Any) -> int:
        """Calls a function; every argument that is not a C int has its ctypes type."""
        if name not in self._functions:
            self._functions[name] = getattr(self._library, name, None)
        function = self._functions[name]
        return CANNOT_OPEN if function is None else int(function(*arguments))

    def must(self, name: str, *arguments: Any) -> None:
        """Calls a function that is to succeed; RuntimeError otherwise."""
        if result := self.call(name, *arguments):
            raise RuntimeError(f"{name} = {result}")

    def free_bytes(self) -> int:
        """What cuMemGetInfo says is free on the current context's device."""
        free, total = c_size_t(), c_size_t()
        self.must("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value


class Nvml:
    """What NVML says of device 0."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = c_void_p()
        self._library.nvmlInit_v2()
        self._library.nvmlDeviceGetHandleByIndex_v2(0, byref(self._device))

    def used_bytes(self) -> int:
        """Of the device's memory."""
        memory = NvmlMemory()
        self._library.nvmlDeviceGetMemoryInfo(self._device, byref(memory))
        return int(memory.used)

    def processes(self) -> dict[int, int]:
        """Who has a context on the device, by pid, and how many bytes each has."""
        found, count = (NvmlProcess * 64)(), c_uint(64)
        if self._library.nvmlDeviceGetComputeRunningProcesses_v3(self._device, byref(count), found):
            return {}
        return {process.pid: int(process.used) for process in found[: count.value]}

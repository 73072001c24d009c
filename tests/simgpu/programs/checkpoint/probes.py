"""The calls that threads make while their process is locked or checkpointed, with arguments that are right."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import byref, c_size_t, c_ubyte, c_uint64, c_void_p
from typing import Any, Protocol

from tests.simgpu.programs.checkpoint.driver import MIB, AllocationProp


class Holder(Protocol):
    """What a process has that the calls need."""

    context: c_void_p
    module: c_void_p
    function: c_void_p
    event: c_void_p
    address: c_uint64
    spare: c_uint64
    kernels: bytes


Arguments = Callable[[Holder], tuple[Any, ...]]


def _out(size: int = 4096) -> Any:
    return ctypes.create_string_buffer(size)


NULL = c_void_p()
ZERO = c_uint64(0)
SIZE = c_size_t(4096)
DEVICE_MEMORY = AllocationProp(type=1, locationType=1)

PROBES: dict[str, Arguments] = {
    "cuCheckpointProcessGetState": lambda _: (os.getpid(), _out()),
    "cuCtxGetCurrent": lambda _: (_out(),),
    "cuCtxGetDevice": lambda _: (_out(),),
    "cuCtxGetLimit": lambda _: (_out(), 0),
    "cuCtxPushCurrent_v2": lambda has: (has.context,),
    "cuCtxSetCurrent": lambda has: (has.context,),
    "cuCtxSynchronize": lambda _: (),
    "cuDeviceGet": lambda _: (_out(), 0),
    "cuDeviceGetAttribute": lambda _: (_out(), 1, 0),
    "cuDeviceGetCount": lambda _: (_out(),),
    "cuDeviceGetName": lambda _: (_out(), 64, 0),
    "cuDeviceGetUuid_v2": lambda _: (_out(), 0),
    "cuDevicePrimaryCtxGetState": lambda _: (0, _out(), _out()),
    "cuDevicePrimaryCtxRetain": lambda _: (_out(), 0),
    "cuDeviceTotalMem_v2": lambda _: (_out(), 0),
    "cuDriverGetVersion": lambda _: (_out(),),
    "cuEventCreate": lambda _: (_out(), 0),
    "cuEventQuery": lambda has: (has.event,),
    "cuEventRecord": lambda has: (has.event, NULL),
    "cuEventSynchronize": lambda has: (has.event,),
    "cuFuncGetAttribute": lambda has: (_out(), 0, has.function),
    "cuGetErrorName": lambda _: (1, _out()),
    "cuGetProcAddress_v2": lambda _: (b"cuInit", _out(), 12000, ZERO, NULL),
    "cuInit": lambda _: (0,),
    "cuMemAddressReserve": lambda _: (_out(), c_size_t(2 * MIB), c_size_t(0), ZERO, ZERO),
    "cuMemAlloc_v2": lambda _: (_out(), SIZE),
    "cuMemCreate": lambda _: (_out(), c_size_t(2 * MIB), byref(DEVICE_MEMORY), ZERO),
    "cuMemFree_v2": lambda has: (has.spare,),
    "cuMemGetAddressRange_v2": lambda has: (_out(), _out(), has.address),
    "cuMemGetInfo_v2": lambda _: (_out(), _out()),
    "cuMemHostAlloc": lambda _: (_out(), SIZE, 0),
    "cuMemcpyDtoHAsync_v2": lambda has: (_out(), has.address, SIZE, NULL),
    "cuMemcpyDtoH_v2": lambda has: (_out(), has.address, SIZE),
    "cuMemcpyHtoD_v2": lambda has: (has.address, _out(), SIZE),
    "cuMemsetD8Async": lambda has: (has.address, c_ubyte(0), c_size_t(16), NULL),
    "cuModuleGetFunction": lambda has: (_out(), has.module, b"nvs_spin"),
    "cuModuleLoadData": lambda has: (_out(), has.kernels),
    "cuPointerGetAttribute": lambda has: (_out(), 2, has.address),
    "cuStreamCreate": lambda _: (_out(), 0),
    "cuStreamIsCapturing": lambda _: (NULL, _out()),
    "cuStreamQuery": lambda _: (NULL,),
    "cuStreamSynchronize": lambda _: (NULL,),
}

"""The few calls of the CUDA driver API that the demo's jobs make, by ctypes: the driver is the only thing they need."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

_SIGNATURES: dict[str, tuple[type, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGetCount": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_void_p, c_int),
    "cuDeviceTotalMem_v2": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (c_void_p, c_char_p),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_char_p),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemsetD8_v2": (c_uint64, ctypes.c_ubyte, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 6, c_uint, c_void_p, c_void_p, c_void_p),
}

Argument = c_uint | c_uint64 | c_float
"""A kernel's parameter, in the type that the kernel declares."""


class CudaError(Exception):
    """A call failed: its name, the error's name and number."""


class Driver:
    """The driver API, loaded; every method raises CudaError where the driver reports an error."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"no CUDA driver: {error}") from error
        for name, types in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = types, c_int
        self._library.cuGetErrorName.argtypes = (c_int, c_void_p)
        self._call("cuInit", 0)

    def device_count(self) -> int:
        """How many devices there are."""
        count = c_int()
        self._call("cuDeviceGetCount", byref(count))
        return count.value

    def device_uuid(self, ordinal: int) -> str:
        """``GPU-`` and the UUID in the usual form."""
        raw = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid_v2", raw, self._device(ordinal))
        text = bytes(raw).hex()
        return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def device_name(self, ordinal: int) -> str:
        """The product's name."""
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, len(name), self._device(ordinal))
        return name.value.decode(errors="replace")

    def total_memory(self, ordinal: int) -> int:
        """Bytes."""
        total = c_size_t()
        self._call("cuDeviceTotalMem_v2", byref(total), self._device(ordinal))
        return total.value

    def use(self, ordinal: int) -> None:
        """Makes the device's primary context this thread's."""
        context = c_void_p()
        self._call("cuDevicePrimaryCtxRetain", byref(context), self._device(ordinal))
        self._call("cuCtxSetCurrent", context)

    def leave(self, ordinal: int) -> None:
        """Gives the primary context back."""
        self._call("cuDevicePrimaryCtxRelease_v2", self._device(ordinal))

    def synchronize(self) -> None:
        """Returns when everything that was submitted has completed."""
        self._call("cuCtxSynchronize")

    def load(self, ptx: bytes) -> c_void_p:
        """A module from PTX text."""
        module = c_void_p()
        self._call("cuModuleLoadData", byref(module), ptx)
        return module

    def function(self, module: c_void_p, name: str) -> c_void_p:
        """A kernel of the module."""
        function = c_void_p()
        self._call("cuModuleGetFunction", byref(function), module, name.encode())
        return function

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes of device memory."""
        address = c_uint64()
        self._call("cuMemAlloc_v2", byref(address), size)
        return address.value

    def free(self, address: int) -> None:
        """Gives memory back."""
        self._call("cuMemFree_v2", address)

    def clear(self, address: int, size: int) -> None:
        """Sets ``size`` bytes to 0."""
        self._call("cuMemsetD8_v2", address, 0, size)

    def read(self, address: int, size: int) -> bytes:
        """Copies ``size`` bytes of device memory here."""
        target = ctypes.create_string_buffer(size)
        self._call("cuMemcpyDtoH_v2", target, address, size)
        return target.raw

    def launch(self, function: c_void_p, blocks: int, threads: int, arguments: Sequence[Argument]) -> None:
        """Submits a kernel to the default stream: ``blocks`` blocks of ``threads`` threads."""
        pointers = (c_void_p * len(arguments))(*(ctypes.cast(ctypes.pointer(each), c_void_p) for each in arguments))
        self._call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)

    def _device(self, ordinal: int) -> int:
        device = c_int()
        self._call("cuDeviceGet", byref(device), ordinal)
        return device.value

    def _call(self, name: str, *arguments: object) -> None:
        if result := getattr(self._library, name)(*arguments):
            text = c_char_p()
            self._library.cuGetErrorName(result, byref(text))
            raise CudaError(f"{name}: {(text.value or b'unknown error').decode()} ({result})")

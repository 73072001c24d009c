"""Whether memory of the host that the virtual memory calls make works as natively: what NCCL has its buffers in.

    PYTHONPATH=src:. python bench/gpu/host_memory_handles.py

Run it from the root of the project, after ``make libs``. It needs a GPU, real or simulated, no PyTorch. A program makes
memory of the host's NUMA node by cuMemCreate that can be shared by a file descriptor, maps it for itself and for the
GPU, lets each of them write what the other one reads, exports and imports it, maps the import beside it, and frees all.
This is done natively and with nvshare. Rows of the table are marked where the two differ. The table is printed, and
written to $OUT/host_memory_handles.md where OUT is set.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from bench.gpu.copies_between_gpus import AnswerError, Driver
from bench.gpu.running.cuda import AccessDesc, AllocationProp
from bench.gpu.running.script import compare

BYTES = 32 << 20
DEVICE, HOST_NUMA = 1, 3
"""Kinds of places (CUmemLocationType)."""
FILE_DESCRIPTOR = 1
"""How a handle can be shared (CUmemAllocationHandleType)."""
READ_WRITE = 3
NONE = ctypes.c_uint64(0)
SIZE = ctypes.c_size_t(BYTES)


class Handles:
    """One memory of the host, and what each step of its use answers."""

    def __init__(self) -> None:
        self.driver = Driver((0,))
        self.driver.current(0)
        self.plain = self.driver.plain(0)
        self.handle, self.imported = ctypes.c_uint64(), ctypes.c_uint64()
        self.address, self.beside = ctypes.c_uint64(), ctypes.c_uint64()
        self.descriptor = ctypes.c_int(-1)

    def rows(self) -> dict[str, str]:
        """The answers, in the order in which NCCL makes the calls."""
        steps: dict[str, Callable[[], str]] = {
            "cuMemCreate in HOST_NUMA": self._create,
            "reserve, map": lambda: self._map(self.handle, self.address),
            "cuMemSetAccess, GPU and host": lambda: self._access(self.address),
            "the host writes, the GPU reads": self._host_writes,
            "the GPU writes, the host reads": self._gpu_writes,
            "cuMemExportToShareableHandle": self._export,
            "cuMemImportFromShareableHandle": self._import,
            "reserve, map of the import": lambda: self._map(self.imported, self.beside),
            "cuMemSetAccess of the import": lambda: self._access(self.beside),
            "the import has the same bytes": self._reads_beside,
            "unmap, release, free of both": self._free,
        }
        return {name: self._answer(step) for name, step in steps.items()}

    @staticmethod
    def _answer(step: Callable[[], str]) -> str:
        try:
            return f"0{step()}"
        except AnswerError as answer:
            return str(answer)

    def _create(self) -> str:
        prop = AllocationProp(1, FILE_DESCRIPTOR, HOST_NUMA, 0)
        self.driver.call("cuMemCreate", ctypes.byref(self.handle), SIZE, ctypes.byref(prop), NONE)
        return ""

    def _map(self, handle: ctypes.c_uint64, address: ctypes.c_uint64) -> str:
        self.driver.call("cuMemAddressReserve", ctypes.byref(address), SIZE, ctypes.c_size_t(0), NONE, NONE)
        self.driver.call("cuMemMap", address, SIZE, ctypes.c_size_t(0), handle, NONE)
        return ""

    def _access(self, address: ctypes.c_uint64) -> str:
        access = (AccessDesc * 2)(AccessDesc(DEVICE, 0, READ_WRITE), AccessDesc(HOST_NUMA, 0, READ_WRITE))
        self.driver.call("cuMemSetAccess", address, SIZE, access, ctypes.c_size_t(2))
        return ""

    def _host_writes(self) -> str:
        ctypes.memset(self.address.value or 0, 0x5A, BYTES)
        found = (ctypes.c_uint8 * BYTES)()
        self.driver.call("cuMemcpyDtoD_v2", ctypes.c_uint64(self.plain), self.address, SIZE)
        self.driver.call("cuMemcpyDtoH_v2", found, ctypes.c_uint64(self.plain), SIZE)
        return _came(bytes(found), 0x5A)

    def _gpu_writes(self) -> str:
        self.driver.call("cuMemsetD8_v2", self.address, ctypes.c_ubyte(0xC3), SIZE)
        self.driver.call("cuCtxSynchronize")
        return _came(ctypes.string_at(self.address.value or 0, BYTES), 0xC3)

    def _export(self) -> str:
        arguments = (ctypes.byref(self.descriptor), self.handle, FILE_DESCRIPTOR, NONE)
        self.driver.call("cuMemExportToShareableHandle", *arguments)
        return ""

    def _import(self) -> str:
        descriptor = ctypes.c_void_p(self.descriptor.value)
        self.driver.call("cuMemImportFromShareableHandle", ctypes.byref(self.imported), descriptor, FILE_DESCRIPTOR)
        return ""

    def _reads_beside(self) -> str:
        return _came(ctypes.string_at(self.beside.value or 0, BYTES), 0xC3)

    def _free(self) -> str:
        for address, handle in ((self.beside, self.imported), (self.address, self.handle)):
            self.driver.call("cuMemUnmap", address, SIZE)
            self.driver.call("cuMemRelease", handle)
            self.driver.call("cuMemAddressFree", address, SIZE)
        return ""


def _came(found: bytes, value: int) -> str:
    return ", and the bytes came" if found == bytes([value]) * BYTES else ", and other bytes came"


if __name__ == "__main__":
    compare(__file__, __doc__, "step", lambda: Handles().rows())

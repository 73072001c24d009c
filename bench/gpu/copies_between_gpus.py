"""Which copies a driver makes between two GPUs and the host, whichever is current, and what the library makes of them.

    PYTHONPATH=src:. python bench/gpu/copies_between_gpus.py

Run it from the root of the project, after ``make libs``. It needs two GPUs, real or simulated, no PyTorch. A program
has memory of both kinds on each of them, by cuMemAlloc and by the virtual memory calls, and gives no peer access. With
either GPU current, and with none, it makes each copy, and looks whether the bytes came. This is done natively and with
nvshare, where plain memory is virtual memory too. Rows of the table are marked where the two differ. The table is
printed, and written to $OUT/copies_between_gpus.md where OUT is set.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu.running.cuda import AccessDesc, AllocationProp
from bench.gpu.running.script import compare

BYTES = 32 << 20
"""Of each memory: enough that it swaps by itself, and a multiple of what the virtual memory calls take."""
COPIED = 1 << 20
GPUS = (0, 1)


class AnswerError(Exception):
    """A call did not succeed."""


class Driver:
    """GPUs with their primary contexts; a call that does not succeed raises AnswerError with the error's name."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.contexts = [ctypes.c_void_p() for _ in gpus]
        self.call("cuInit", 0)
        for gpu in gpus:
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.contexts[gpu]), gpu)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function."""
        if result := getattr(self._cuda, name)(*arguments):
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(result, ctypes.byref(text))
            raise AnswerError(f"{result} {(text.value or b'?').decode().removeprefix('CUDA_ERROR_')}")

    def current(self, gpu: int | None) -> None:
        """Makes a GPU's context current; None: none."""
        self.call("cuCtxSetCurrent", None if gpu is None else self.contexts[gpu])

    def plain(self, gpu: int) -> int:
        """The address of memory by cuMemAlloc."""
        address = ctypes.c_uint64()
        self.current(gpu)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(BYTES))
        return address.value

    def mapped(self, gpu: int) -> int:
        """The address of memory by the virtual memory calls, which its own GPU may use."""
        handle, address = ctypes.c_uint64(), ctypes.c_uint64()
        size, none = ctypes.c_size_t(BYTES), ctypes.c_uint64(0)
        prop, access = AllocationProp(1, 0, 1, gpu), AccessDesc(1, gpu, 3)
        self.current(gpu)
        self.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(prop), none)
        self.call("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), none, none)
        self.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, none)
        self.call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
        return address.value


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one kind on one GPU."""

    name: str
    gpu: int
    address: int


class Copies:
    """Each copy, and whether its bytes came."""

    def __init__(self) -> None:
        self.driver = Driver(GPUS)
        self.host = (ctypes.c_uint8 * COPIED)()
        self.memories = [
            Memory(f"{kind} of GPU {gpu}", gpu, getattr(self.driver, kind)(gpu))
            for kind in ("plain", "mapped")
            for gpu in GPUS
        ]
        self._values = itertools.cycle(range(1, 256))

    def rows(self) -> dict[str, str]:
        """What each of them answers."""
        found: dict[str, str] = {}
        for gpu in (*GPUS, None):
            where = "none current" if gpu is None else f"GPU {gpu} current"
            for memory in self.memories:
                found[f"{where}: host to {memory.name}"] = self._tried(gpu, self._to_device, memory, memory)
                found[f"{where}: {memory.name} to host"] = self._tried(gpu, self._to_host, memory, memory)
            for source, target in itertools.product(self.memories, repeat=2):
                if source.gpu != target.gpu:
                    for name, copy in (("cuMemcpyDtoD", self._between), ("cuMemcpyPeer", self._peer)):
                        what = f"{where}: {name}, {source.name} to {target.name}"
                        found[what] = self._tried(gpu, copy, source, target)
        return found

    def _tried(self, gpu: int | None, copy: Any, source: Memory, target: Memory) -> str:
        """The driver's answer; the bytes are written before, and read after, with the memory's own GPU current."""
        value = next(self._values)
        self._write(source, value)
        if source is not target:
            self._write(target, 0)
        self.driver.current(gpu)
        try:
            found = copy(source, target, value)
        except AnswerError as answer:
            return str(answer)
        return "0, and the bytes came" if found == value else f"0, and {found} came instead of {value}"

    def _write(self, memory: Memory, value: int) -> None:
        self.driver.current(memory.gpu)
        ctypes.memset(self.host, value, COPIED)
        self._copied("cuMemcpyHtoD_v2", ctypes.c_uint64(memory.address), self.host)

    def _read(self, memory: Memory) -> int:
        self.driver.current(memory.gpu)
        ctypes.memset(self.host, 0, COPIED)
        self._copied("cuMemcpyDtoH_v2", self.host, ctypes.c_uint64(memory.address))
        return int(self.host[COPIED - 1])

    def _read_when_done(self, memory: Memory) -> int:
        """A copy between GPUs may go on after its call, in either context."""
        for gpu in GPUS:
            self.driver.current(gpu)
            self.driver.call("cuCtxSynchronize")
        return self._read(memory)

    def _copied(self, name: str, *arguments: Any) -> None:
        self.driver.call(name, *arguments, ctypes.c_size_t(COPIED))

    def _to_device(self, memory: Memory, _: Memory, value: int) -> int:
        ctypes.memset(self.host, value, COPIED)
        self._copied("cuMemcpyHtoD_v2", ctypes.c_uint64(memory.address), self.host)
        return self._read(memory)

    def _to_host(self, memory: Memory, _: Memory, value: int) -> int:
        ctypes.memset(self.host, value ^ 255, COPIED)
        self._copied("cuMemcpyDtoH_v2", self.host, ctypes.c_uint64(memory.address))
        return int(self.host[COPIED - 1])

    def _between(self, source: Memory, target: Memory, _: int) -> int:
        self._copied("cuMemcpyDtoD_v2", ctypes.c_uint64(target.address), ctypes.c_uint64(source.address))
        return self._read_when_done(target)

    def _peer(self, source: Memory, target: Memory, _: int) -> int:
        contexts = self.driver.contexts
        to, by = (ctypes.c_uint64(target.address), contexts[target.gpu]), (ctypes.c_uint64(source.address),)
        self._copied("cuMemcpyPeer", *to, *by, contexts[source.gpu])
        return self._read_when_done(target)


if __name__ == "__main__":
    compare(__file__, __doc__, "copy", lambda: Copies().rows())

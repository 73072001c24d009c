"""Memory that two ranks of a job give each other by CUDA IPC, and how they meet: files in a folder of theirs."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

HANDLE_BYTES = 64
LAZY_PEER_ACCESS = 1
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.005
ATTRIBUTES = {
    "memory type": (2, c_uint),
    "device": (9, c_int),
    "range start": (11, c_uint64),
    "range size": (12, c_uint64),
}
"""Some of CUpointer_attribute, with the type of the answer."""


class Handle(ctypes.Structure):
    """CUipcMemHandle: passed by value."""

    _fields_ = (("reserved", c_char * HANDLE_BYTES),)


class IpcError(Exception):
    """The driver refused something, or the other rank did not come."""


class Ipc:
    """The driver's calls for it; needs a current context."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._driver.cuIpcOpenMemHandle_v2.argtypes = (c_void_p, Handle, c_uint)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver; IpcError with the error's name when it fails."""
        if result := getattr(self._driver, name)(*arguments):
            text = c_char_p()
            self._driver.cuGetErrorName(result, byref(text))
            raise IpcError(f"{name}: {(text.value or b'unknown error').decode()} ({result})")

    def allocate(self, size: int) -> int:
        """The address of so many bytes of device memory, all 0."""
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self.call("cuMemsetD8_v2", address, 0, c_size_t(size))
        return address.value

    def attributes(self, address: int) -> dict[str, int]:
        """What the driver says of an address."""
        said = {}
        for name, (number, kind) in ATTRIBUTES.items():
            value = kind()
            self.call("cuPointerGetAttribute", byref(value), number, c_uint64(address))
            said[name] = int(value.value)
        return said

    def give(self, address: int) -> dict[str, Any]:
        """A handle of the allocation in which an address lies, and where in it, as frameworks give their tensors."""
        handle, base = Handle(), self.attributes(address)["range start"]
        self.call("cuIpcGetMemHandle", byref(handle), c_uint64(base))
        return {"handle": bytes(memoryview(handle)).hex(), "offset": address - base}

    def open(self, given: dict[str, Any]) -> tuple[int, int]:
        """Where that address is in this process, and what is to be closed."""
        handle, base = Handle.from_buffer_copy(bytes.fromhex(given["handle"])), c_uint64()
        self.call("cuIpcOpenMemHandle_v2", byref(base), handle, LAZY_PEER_ACCESS)
        return base.value + given["offset"], base.value

    def close(self, base: int) -> None:
        """Ends what ``open`` began."""
        self.call("cuIpcCloseMemHandle", c_uint64(base))

    def read(self, address: int, size: int) -> bytes:
        """Copies device memory here."""
        target = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", target, c_uint64(address), c_size_t(size))
        return target.raw


class Rendezvous:
    """Where two ranks tell each other things, each by a name that is used once."""

    def __init__(self, rank: int, folder: Path) -> None:
        self._rank, self._folder = rank, folder

    def exchange(self, name: str, mine: Any) -> Any:
        """What the other rank says under the same name. IpcError when it says nothing for so long."""
        draft = self._folder / f"draft-{self._rank}"
        draft.write_text(json.dumps(mine))
        draft.rename(self._folder / f"{name}-{self._rank}")
        there = self._folder / f"{name}-{1 - self._rank}"
        _wait(there.exists, f"rank {1 - self._rank} did not say its {name}")
        return json.loads(there.read_text())


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise IpcError(f"{otherwise} within {PATIENCE_SECONDS:g} s")
        time.sleep(POLL_SECONDS)

"""A process that makes a device small: ``python -m tests.programs.hog ORDINAL LEAVE_BYTES``, and a handle of one.

It holds what is free but LEAVE_BYTES by plain cuMemAlloc, and prints what is free then. At each line of its input it
does so anew: with another number to leave, or with ``all`` it holds nothing but its context. It ends with its input.
It takes no part in nvshare's sharing, so nothing can move its memory; a driver out of memory can be had by it.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

_STEP_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Hog:
    """A running hog."""

    process: subprocess.Popen[str]

    def leave(self, size: int) -> int:
        """Makes it hold all but that many bytes; returns what is free then."""
        return self._ask(str(size))

    def leave_all(self) -> int:
        """Makes it give its memory back; returns what is free then."""
        return self._ask("all")

    def answer(self) -> int:
        """What it says next: the bytes that are free."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the hog has ended"
        return int(line)

    def _ask(self, line: str) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()


@contextmanager
def hog(environment: Mapping[str, str], leave_bytes: int, ordinal: int = 0) -> Iterator[Hog]:
    """A hog in an environment that must not preload the library; it holds the memory when this returns."""
    command = [sys.executable, "-m", "tests.programs.hog", str(ordinal), str(leave_bytes)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            running = Hog(process)
            running.answer()
            yield running
        finally:
            process.kill()


class _Device:
    """The driver's calls on one device."""

    def __init__(self, ordinal: int) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self._call("cuCtxSetCurrent", context)
        self._held: list[ctypes.c_uint64] = []

    def free_bytes(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def hold_all_but(self, leave_bytes: int) -> None:
        while (size := (self.free_bytes() - leave_bytes) // _STEP_BYTES * _STEP_BYTES) > 0:
            address = ctypes.c_uint64()
            self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            self._held.append(address)

    def hold_nothing(self) -> None:
        while self._held:
            self._call("cuMemFree_v2", self._held.pop())

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result != 0:
            sys.exit(f"hog: {name} gave {result}")


def main() -> None:
    """The process."""
    device = _Device(int(sys.argv[1]))
    device.hold_all_but(int(sys.argv[2]))
    print(device.free_bytes(), flush=True)
    for line in sys.stdin:
        device.hold_nothing()
        if line.strip() != "all":
            device.hold_all_but(int(line))
        print(device.free_bytes(), flush=True)


if __name__ == "__main__":
    main()

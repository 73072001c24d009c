"""A machine whose memory grows as it is used shows less at the start than it has: it is used once, before the rest."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STEP_BYTES = 1 << 30
LEFT_BYTES = 4 << 30
"""Of what is free, so much stays untouched: what the machine gives next takes a moment."""


def available() -> int:
    """Bytes that programs can have now."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def touch(_: int) -> mmap.mmap:
    """One step more, every page of it."""
    memory = mmap.mmap(-1, STEP_BYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(address, 1, STEP_BYTES)
    return memory


def grow(wanted: int) -> None:
    """Until so much is in use by this process or free, or there is no more."""
    held: list[mmap.mmap] = []
    with ThreadPoolExecutor(4) as threads:
        while (free := available()) + STEP_BYTES * len(held) < wanted and free > LEFT_BYTES:
            held += threads.map(touch, range(4))


if __name__ == "__main__":
    before = available()
    child = os.fork()
    if child == 0:
        grow(int(sys.argv[1]))
        os._exit(0)
    os.waitpid(child, 0)
    print(f"# host memory: {before / 2**30:.0f} GiB were free, {available() / 2**30:.0f} are", flush=True)

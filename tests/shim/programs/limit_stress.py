"""Threads that allocate and free at random, beside other such processes of the same container.

Arguments: a file with the sum of what all of them have, a seed, the limit in MiB. An allocation counts in the file from
after it was made until before it is freed, so the sum there is never more than what there is. Prints how many
allocations were made and how many refused; ends with a message when the sum passes the limit.
"""

from __future__ import annotations

import ctypes
import fcntl
import random
import struct
import sys
import threading
from pathlib import Path

DRIVER = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
OUT_OF_MEMORY = 2
SUM, SEED, LIMIT = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) * MIB
THREADS, STEPS = 2, 60
made: list[int] = []
refused: list[int] = []
faults: list[str] = []


def count(change: int) -> int:
    """The sum after that change of it."""
    with SUM.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        total: int = struct.unpack("q", file.read(8))[0] + change
        file.seek(0)
        file.write(struct.pack("q", total))
        file.flush()
    return total


def allocate(chance: random.Random, size: int) -> tuple[int, str] | None:
    """An allocation and how to free it; None: out of memory."""
    place = ctypes.c_ulonglong()
    if chance.random() < 0.7:
        result, free = DRIVER.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size)), "cuMemFree_v2"
    else:
        width = 1 << 14
        descriptor = (ctypes.c_size_t * 3)(width, size // width, 1 << 32 | 1)
        result, free = DRIVER.cuArrayCreate_v2(ctypes.byref(place), descriptor), "cuArrayDestroy"
    if result == 0:
        return place.value, free
    if result != OUT_OF_MEMORY:
        faults.append(f"error {result}")
    return None


def work(context: ctypes.c_void_p, seed: int) -> None:
    """One thread."""
    chance = random.Random(seed)
    DRIVER.cuCtxSetCurrent(context)
    had: list[tuple[int, str, int]] = []
    for _ in range(STEPS):
        if had and chance.random() < 0.45:
            place, free, size = had.pop(chance.randrange(len(had)))
            count(-size)
            if result := DRIVER[free](ctypes.c_ulonglong(place)):
                faults.append(f"{free}: {result}")
            continue
        size = chance.choice((2, 4, 16, 32, 64)) * MIB
        found = allocate(chance, size)
        if found is None:
            refused.append(size)
            continue
        made.append(size)
        had.append((*found, size))
        if (total := count(size)) > LIMIT:
            faults.append(f"{total} bytes are allocated")
    for place, free, size in had:
        count(-size)
        DRIVER[free](ctypes.c_ulonglong(place))


def main() -> None:
    """Waits for a line on stdin before it begins."""
    context = ctypes.c_void_p()
    assert DRIVER.cuInit(0) == 0
    assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    print("ready", flush=True)
    sys.stdin.readline()
    threads = [threading.Thread(target=work, args=(context, SEED * THREADS + each)) for each in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(made), len(refused), *faults, flush=True)
    sys.stdin.readline()


main()

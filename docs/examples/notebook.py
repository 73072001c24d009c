"""A program that has a GPU as a notebook does: memory for as long as it lives, work now and then.

python notebook.py MIB BUSY_SECONDS IDLE_SECONDS ROUNDS

It needs the CUDA driver and the package nvshare, no framework, and runs on the simulated GPUs, too. After each round
it says how long the round took, and in the end whether its memory still has what it wrote there.
"""

from __future__ import annotations

import sys
import time
from ctypes import c_float, c_uint64

from nvshare import simgpu
from nvshare.demo.driver import Driver

MIB = 1 << 20
STEP_NS = 10_000_000
THREADS = 256
FLOATS = 4 * THREADS


def main() -> None:
    """Works and rests, in turns."""
    mib, rounds = int(sys.argv[1]), int(sys.argv[4])
    busy, idle = float(sys.argv[2]), float(sys.argv[3])
    driver = Driver()
    driver.use(0)
    module = driver.load(simgpu.KERNELS_PTX.read_bytes() + b"\0")
    fill, touch = driver.function(module, "nvs_fill_f32"), driver.function(module, "nvs_touch")
    blocks = [driver.allocate(64 * MIB) for _ in range(max(1, mib // 64))]
    for number, block in enumerate(blocks):
        driver.launch(fill, FLOATS // THREADS, THREADS, (c_uint64(block), c_float(number), c_uint64(FLOATS)))
    driver.synchronize()
    for count in range(1, rounds + 1):
        began = time.monotonic()
        for step in range(round(busy * 1e9 / STEP_NS)):
            block = blocks[step % len(blocks)]
            driver.launch(touch, 1, THREADS, (c_uint64(block), c_uint64(64 * MIB), c_uint64(STEP_NS)))
        driver.synchronize()
        print(f"round {count}: {busy:g} s of work took {time.monotonic() - began:.2f} s", flush=True)
        time.sleep(idle)
    bytes_of = [driver.read(block, 4) for block in blocks]
    right = bytes_of == [bytes(c_float(number)) for number in range(len(blocks))]
    print("right" if right else "wrong", flush=True)


if __name__ == "__main__":
    main()

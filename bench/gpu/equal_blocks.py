"""How much of the memory of PyTorch processes with the same model is the same, in blocks of 2 MiB.

    PYTHONPATH=src:. python bench/gpu/equal_blocks.py [--width 1600]

Run it from the root of the project. It needs one NVIDIA GPU with 4 GiB free, and PyTorch. Five processes, one after the
other, have the same weights of a transformer of 12 layers in half precision: as a program loads them; once more; after
another allocation; in another order of layers; and with memory of the virtual memory calls (expandable segments). Each
reads its device memory and hashes every block. A row says which share of the bytes of a process that are not zero lies
in blocks that another process has as well, at whatever address. The table is printed, and written to
$OUT/equal_blocks.md where OUT is set.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench.gpu.running.script import show

BLOCK_BYTES = 2 << 20
LAYERS, WIDTH = 12, 2048
WAYS = {
    "as it is": "the same program twice",
    "after": "after an allocation of 3 MiB of its own",
    "reversed": "layers made in the opposite order",
    "expandable": "with expandable segments",
}


def model(way: str, width: int) -> list[Any]:
    """The weights on the device, with values that only their place in the model decides."""
    import torch

    kept = []
    if way == "after":
        kept.append(torch.ones(3 << 19, dtype=torch.half, device="cuda"))
    shapes = [(width, width)] * 4 + [(4 * width, width), (width, 4 * width)] + [(width,)] * 6 + [(4 * width,)]
    order = range(LAYERS)
    for layer in reversed(order) if way == "reversed" else order:
        for number, shape in enumerate(shapes):
            generator = torch.Generator().manual_seed(1000 * layer + number)
            kept.append(torch.randn(shape, generator=generator).half().cuda())
    torch.cuda.synchronize()
    return kept


def blocks() -> Iterator[bytes]:
    """All of the process's device memory that PyTorch's allocator has, in whole blocks."""
    import torch

    host = torch.empty(BLOCK_BYTES, dtype=torch.uint8, pin_memory=True)
    copy = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoH_v2
    for segment in torch.cuda.memory_snapshot():
        start, end = segment["address"], segment["address"] + segment["total_size"]
        for address in range(start, end - BLOCK_BYTES + 1, BLOCK_BYTES):
            if not copy(ctypes.c_void_p(host.data_ptr()), ctypes.c_uint64(address), ctypes.c_size_t(BLOCK_BYTES)):
                yield host.numpy().tobytes()


def hashed(way: str, width: int) -> dict[str, int]:
    """The hashes of this process's blocks, and how many bytes of each are not zero."""
    kept = model(way, width)
    found = {
        hashlib.blake2b(block, digest_size=16).hexdigest(): BLOCK_BYTES - block.count(0)
        for block in blocks()
        if block.count(0) < BLOCK_BYTES
    }
    del kept
    return found


def of_process(way: str, width: int) -> dict[str, int]:
    """The same in a process of its own."""
    environment = dict(os.environ)
    if way == "expandable":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    command = [sys.executable, __file__, "--process", way, "--width", str(width)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=240)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--process", choices=WAYS, help="only this process's hashes, as JSON")
    parser.add_argument("--width", type=int, default=WIDTH, help=f"of the model; {WIDTH}: matrices are whole blocks")
    arguments = parser.parse_args()
    if arguments.process:
        json.dump(hashed(arguments.process, arguments.width), sys.stdout)
        return
    first = of_process("as it is", arguments.width)
    lines = ["| the other process | its bytes that are not zero | in blocks that the first has too |", "|---|---|---|"]
    for other, what in WAYS.items():
        found = of_process(other, arguments.width)
        total = sum(found.values())
        shared = sum(count for name, count in found.items() if name in first)
        lines.append(f"| {what} | {total / 1e9:.3f} GB | {shared / total:.3f} |")
    show("equal_blocks", lines)


if __name__ == "__main__":
    main()

"""What the library costs a program, toggled inside one process, since two processes differ by more than it costs.

    PYTHONPATH=src:. python bench/gpu/toggle.py [--workload mlp|tiny_add|spin] [--library PATH] [--simulate]

Each round measures the same steps in every mode, in random order; what counts is the ratio to "bypassed" within a
round. Modes are made by writing into the code of the loaded library:

bypassed  every hook that passes the gate begins with a jump to the driver's own function
gate      pacing's look at the device returns at once; only with a library that has its symbols, as
          ``python build_native.py strict`` makes it (build/strict/nvshare/shim/lib/x86_64/libnvshare.so)
shared    the library as it is

Run it from the root of the project, after ``make libs``. x86-64 only. ``spin`` needs no PyTorch.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.run import scheduler
from nvshare import paths, simgpu

SUBMITTING = ("cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset")
"""How the names of the hooks begin that programs call often."""
LOOK = "nvs_pacing_look"
RETURN = b"\xc3"
SYMBOL_TABLES = (2, 11)
"""SHT_SYMTAB, SHT_DYNSYM."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A library in this process."""

    base: int
    path: Path

    @classmethod
    def find(cls, name: str) -> Loaded:
        """The one whose file name begins so."""
        for line in Path("/proc/self/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and Path(fields[5]).name.startswith(name) and int(fields[2], 16) == 0:
                return cls(int(fields[0].split("-")[0], 16), Path(fields[5]))
        raise RuntimeError(f"{name} is not loaded")

    def functions(self) -> dict[str, int]:
        """Addresses in this process, by name, from all symbol tables of the file."""
        data = self.path.read_bytes()
        offset, size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        found = {}
        for _, kind, _, _, start, length, link, _, _, entry in sections:
            if kind not in SYMBOL_TABLES:
                continue
            strings = sections[link][4]
            for at in range(start, start + length, entry):
                name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
                if value and section and info & 15 == 2:
                    end = data.index(b"\0", strings + name)
                    found[data[strings + name : end].decode()] = self.base + value
        return found


class Code:
    """Places in the library's code that can be written to."""

    def __init__(self) -> None:
        self.original: dict[int, bytes] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)

    def open(self, address: int, size: int) -> None:
        """Remembers what is there, and makes it writable."""
        first = address & ~(mmap.PAGESIZE - 1)
        length = ctypes.c_size_t(address + size - first)
        if self._libc.mprotect(ctypes.c_void_p(first), length, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.original[address] = ctypes.string_at(address, size)

    def write(self, changed: dict[int, bytes]) -> None:
        """These places change, all others are as they were."""
        for address, data in (self.original | changed).items():
            ctypes.memmove(address, data, len(data))


def jump(address: int) -> bytes:
    """mov rax, address; jmp rax"""
    return b"\x48\xb8" + struct.pack("<Q", address) + b"\xff\xe0"


def modes(code: Code) -> dict[str, dict[int, bytes]]:
    """What is written where in each mode."""
    library, driver = Loaded.find("libnvshare.so").functions(), Loaded.find("libcuda.so").functions()
    hooks = [name for name in library if name.startswith(SUBMITTING) and name in driver]
    result = {"bypassed": {library[name]: jump(driver[name]) for name in hooks}}
    if LOOK in library:
        result["gate"] = {library[LOOK]: RETURN}
    for changes in result.values():
        for address, data in changes.items():
            code.open(address, len(data))
    return result | {"shared": {}}


def spin() -> tuple[Callable[[], None], Callable[[], None]]:
    """A step of 80 empty launches, and waiting for all of them."""
    from bench.gpu.running.cuda import Cuda

    cuda = Cuda()

    def step() -> None:
        for _ in range(80):
            cuda.spin(0)

    return step, cuda.synchronize


def frameworks(workload: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """A workload of workload.py."""
    import torch

    from bench.gpu.workload import WORKLOADS

    torch.manual_seed(7)
    return WORKLOADS[workload]()[0], torch.cuda.synchronize


def measure(workload: str, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Steps a second in every mode, a value for every round."""
    step, synchronize = spin() if workload == "spin" else frameworks(workload)
    code = Code()
    for _ in range(50):
        step()
    synchronize()
    begin = time.perf_counter()
    for _ in range(50):
        step()
    synchronize()
    steps = max(1, round(50 * seconds / (time.perf_counter() - begin)))
    changes = modes(code)
    rates: dict[str, list[float]] = {mode: [] for mode in changes}
    for _ in range(rounds):
        for mode in random.sample(sorted(changes), len(changes)):
            synchronize()
            code.write(changes[mode])
            for _ in range(max(1, steps // 10)):
                step()
            synchronize()
            begin = time.perf_counter()
            for _ in range(steps):
                step()
            synchronize()
            rates[mode].append(steps / (time.perf_counter() - begin))
    code.write({})
    return rates


def report(workload: str, rates: dict[str, list[float]]) -> None:
    """One row for each mode; the error is that of the median, from the middle half of the ratios."""
    print("| workload | mode | steps a second | ratio to bypassed, median of rounds | +- | rounds |")
    print("|---|---|---|---|---|---|")
    for mode, values in rates.items():
        ratios = [value / base for value, base in zip(values, rates["bypassed"], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        error = 1.25 * (high - low) / 1.35 / len(ratios) ** 0.5
        row = f"{statistics.median(values):.1f} | {statistics.median(ratios):.4f} | {error:.4f} | {len(ratios)}"
        print(f"| {workload} | {mode} | {row} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="mlp")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.15, help="of one mode in one round")
    parser.add_argument("--library", type=Path, help="the library to measure")
    parser.add_argument("--simulate", action="store_true", help="on a simulated device")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(measure(options.workload, options.rounds, options.seconds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if options.simulate:
            environment |= simgpu.environment(Path(folder), base=environment)
        with scheduler("exclusive", 30, environment) as clients:
            if options.library:
                clients[paths.LD_PRELOAD] = str(options.library.resolve(strict=True))
            command = [sys.executable, __file__, "--inside", *sys.argv[1:]]
            done = subprocess.run(command, env=clients, stdout=subprocess.PIPE, text=True, check=True)
        report(options.workload, json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()

"""How fast the host memory of programs that sleep goes into files and comes back, against the disk itself.

Usage, as root: ``python -m bench.files FOLDER [GIBIBYTES [ROUNDS]]`` with a folder on the disk in question, how much
each of three programs has (1), and how often each is woken (3). A real scheduler, programs with the library on a
simulated GPU. They have more together than host memory takes, so whoever is woken comes back from a file, and another
one goes into one. Between that the same amount is written and read as directly by four threads, without us.
"""

from __future__ import annotations

import mmap
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

from nvshare import simgpu
from nvshare.paths import RunDir
from nvshare.scheduler.arenas import files
from tests.conftest import libraries_of
from tests.polling import poll_until
from tests.scheduler.swapping_programs import ask, line, programs
from tests.scheduler.wire_client import Scheduler

GIB: Final = 1 << 30
PIECE: Final = 2 << 20
THREADS: Final = 4
WENT, CAME = "the data of a process is in a file", "the data of a process is back from a file"


def main() -> None:
    folder = Path(sys.argv[1])
    size = int(float(sys.argv[2]) * GIB) if len(sys.argv) > 2 else GIB
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    with tempfile.TemporaryDirectory(prefix="nvshare-") as root:
        _measure(Path(root), folder, size, rounds)


def _measure(root: Path, folder: Path, size: int, rounds: int) -> None:
    devices = f"1x{max(4, 5 * size // GIB)}GiB/16MiB"
    options = (f"--swap-dir={folder}", f"--host-memory={2 * size + size // 2}", "--sleep-after=0.2")
    disk: dict[str, list[float]] = {"written": [], "read": []}
    with (
        programs(libraries_of(platform.machine()), RunDir(root), root / "simgpu", devices) as begin,
        Scheduler(root / "run", *options, environment=simgpu.environment(root / "simgpu", devices)) as scheduler,
    ):
        started = [begin(size >> 20, 3 * rounds, asked=True) for _ in range(3)]
        for program in started:
            assert line(program) == "written"
            assert ask(program).startswith("round")
        for _ in range(3 * rounds):
            stored = poll_until(lambda: _stored(scheduler), "one is in a file", 60)
            _disk(folder, size, disk)
            assert ask(next(program for program in started if program.pid == stored)).startswith("round")
        for name, what in ("written", WENT), ("read", CAME):
            ours = [_rate(entry) for entry in scheduler.logged(what)]
            print(
                f"{name}: {median(ours):.2f} GiB/s of {len(ours)}, the disk {median(disk[name]):.2f} GiB/s: "
                f"{median(ours) / median(disk[name]):.2f}"
            )


def _stored(scheduler: Scheduler) -> int:
    """The pid of one that is in a file while all sleep; 0: there is none yet."""
    clients = [client for device in scheduler.status().devices for client in device.clients]
    found = [client.pid for client in clients if client.swap.stored_bytes]
    return found[0] if found and all(client.state == "asleep" for client in clients) else 0


def _rate(entry: dict[str, object]) -> float:
    size, unit = str(entry["size"]).split()
    return float(size) / (1 if unit == "GiB" else 1024) / float(str(entry["seconds"]))


def _disk(folder: Path, size: int, rates: dict[str, list[float]]) -> None:
    """Writes and reads as much as one program has."""
    descriptor = files.make(folder)
    memory = [mmap.mmap(-1, PIECE) for _ in range(THREADS)]
    for each in memory:
        each.write(os.urandom(PIECE))

    def run(transfer: Callable[[int, mmap.mmap, int], int]) -> float:
        def part(thread: int) -> None:
            for offset in range(thread * PIECE, size, THREADS * PIECE):
                assert transfer(descriptor, memory[thread], offset) == PIECE

        begun = time.monotonic()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(part, range(THREADS)))
        return size / GIB / (time.monotonic() - begun)

    try:
        rates["written"].append(run(os.pwrite))
        rates["read"].append(run(lambda number, into, offset: os.preadv(number, [into], offset)))
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()

"""What it saves to keep equal data of programs that sleep once, and what that costs who wakes.

Usage: ``python -m bench.equal [PROGRAMS [GIBIBYTES]]``: how many programs there are (4), and how much each has (1). A
real scheduler, programs with the library on a simulated GPU, all with the same data. Twice: with as much host memory
that nothing is kept once, and with little more than all of them have. Each is woken once, one after the other.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from nvshare import simgpu
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from tests.conftest import libraries_of
from tests.polling import poll_until
from tests.scheduler.swapping_programs import ask, line, programs
from tests.scheduler.wire_client import Scheduler

GIB: Final = 1 << 30
BESIDE: Final = GIB // 8
"""What each may have unasked beside its data, and host memory for that."""
TIMEOUT_SECONDS: Final = 120.0
WENT = "equal data of processes is kept once"
CAME = "the equal data of a process is back in memory of its own"
PROGRAM: Final = """
import random, sys
from tests.simgpu.device import Device, allocate, call
mebibytes = int(sys.argv[1])
pieces = [random.Random(number).randbytes(1 << 20) for number in range(mebibytes)]
Device.open()
place = allocate(mebibytes << 20)
for number, piece in enumerate(pieces):
    call("cuMemcpyHtoD", place + (number << 20), piece, 1 << 20)
call("cuCtxSynchronize")
print("written", flush=True)
while sys.stdin.readline():
    call("cuCtxSynchronize")
    print("awake", flush=True)
    found = bytearray(1 << 20)
    for number, piece in enumerate(pieces):
        call("cuMemcpyDtoH", found, place + (number << 20), 1 << 20)
        assert found == piece, number
    print("right", flush=True)
"""


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    size = int(float(sys.argv[2]) * GIB) if len(sys.argv) > 2 else GIB
    for name, times in ("each its own", 4.0), ("kept once", 1.2):
        with tempfile.TemporaryDirectory(prefix="nvshare-") as root:
            _measure(Path(root), name, count, size, int(times * count * (size + BESIDE)))


def _measure(root: Path, name: str, count: int, size: int, host_bytes: int) -> None:
    devices = f"1x{(count + 1) * (size + BESIDE) // GIB + 1}GiB/16MiB"
    options = (f"--host-memory={host_bytes}", "--sleep-after=0.2")
    with (
        programs(libraries_of(platform.machine()), RunDir(root), root / "simgpu", devices) as begin,
        Scheduler(root / "run", *options, environment=simgpu.environment(root / "simgpu", devices)) as scheduler,
    ):
        started = []
        for _ in range(count):
            started.append(begin(size >> 20, 0, asked=True, script=PROGRAM))
            assert line(started[-1]) == "written"
        _rests(scheduler, count)
        status = scheduler.status()
        print(
            f"{name}: {count} programs with {size / GIB:.2f} GiB each take {status.host_memory_used_bytes / GIB:.2f} "
            f"GiB of host memory; packs {status.packs_bytes / GIB:.2f}, away {status.shared_blocks_bytes / GIB:.2f}"
        )
        seconds = []
        for program in started:
            begun = time.monotonic()
            assert ask(program) == "awake"
            seconds.append(time.monotonic() - begun)
            assert line(program) == "right"
            _rests(scheduler, count)
        print(f"{name}: awake after {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
        for what, event in ("sums, comparing and letting go", WENT), ("of waking, memory and copies", CAME):
            took = [float(str(entry["seconds"])) for entry in scheduler.log() if entry["event"] == event]
            if took:
                print(f"{name}: {what} took {median(took):.2f} s of {len(took)}")


def _rests(scheduler: Scheduler, count: int) -> None:
    """All sleep, and no data is on its way to a pack, as far as the status shows it for two seconds."""
    seen: list[tuple[float, int]] = []

    def look() -> bool:
        status = scheduler.status()
        now, asleep = time.monotonic(), sum(map(_is_asleep, status.devices))
        if seen and (seen[-1][1] != status.shared_blocks_bytes or asleep < count):
            seen.clear()
        if asleep == count:
            seen.append((now, status.shared_blocks_bytes))
        return bool(seen) and now - seen[0][0] > 2.0

    poll_until(look, "all sleep", TIMEOUT_SECONDS)


def _is_asleep(device: admin_pb2.Device) -> int:
    return sum(client.state == "asleep" for client in device.clients)


if __name__ == "__main__":
    main()

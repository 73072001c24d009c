"""Programs with memory that swaps, under the library on a simulated GPU: each knows what is in its memory.

A program looks at all of it in each of its rounds, so that one which ends well has lost nothing, wherever it was.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nvshare import simgpu
from nvshare.admin import admin_pb2
from nvshare.paths import LD_PRELOAD, RUN_DIR, RunDir
from tests.conftest import SOURCE_ROOT, Libraries
from tests.pipes import said_to_the_end
from tests.scheduler.wire_client import Scheduler

Serve = Callable[..., Scheduler]
Program = subprocess.Popen[str]
Start = Callable[..., Program]

MIB = 1 << 20
CHUNK = 64 * MIB
PROGRAM = """
import ctypes, sys
from tests.simgpu.device import Device, allocate, call
mebibytes, rounds, ordinal = map(int, sys.argv[1:4])
MARK, STRIDE = 1024, 3 << 20
device = Device.open(ordinal)
blocks = [(allocate(size), size) for size in (1000, mebibytes << 18, mebibytes << 19, (mebibytes << 18) - (1 << 20))]
places = [address + offset for address, size in blocks for offset in range(0, max(1, size - 4 * MARK), STRIDE)]
def value(place, round):
    return float((place >> 20) % 4096 + round)
def write(round):
    for place in places:
        device.fill(place, value(place, round), 200)
def look(round):
    for place in places:
        found = device.floats(place, 200)
        assert found == [value(place, round)] * 200, (hex(place), round, found[:3], value(place, round))
write(0)
print("written", flush=True)
for round in range(rounds):
    if len(sys.argv) > 4:
        sys.stdin.readline()
    device.spin(0.02)
    look(round)
    write(round + 1)
    call("cuCtxSynchronize")
    print("round", round, flush=True)
look(rounds)
print("right", flush=True)
"""


@contextmanager
def programs(libraries: Libraries, run_dir: RunDir, folder: Path, devices: str) -> Iterator[Start]:
    """Starts programs with so many MiB that do so many rounds; ``asked``: each when it is told to."""
    variables = simgpu.environment(folder, devices) | {
        LD_PRELOAD: str(libraries.shim),
        RUN_DIR: str(run_dir.root / "run"),
        "NVSHARE_MEMORY": "swap",
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(
            mebibytes: int, rounds: int, ordinal: int = 0, *, asked: bool = False, script: str = PROGRAM
        ) -> Program:
            command = [sys.executable, "-c", script, str(mebibytes), str(rounds), str(ordinal)]
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                [*command, *(["asked"] if asked else [])],
                env=variables,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def line(program: Program) -> str:
    """The next line that it prints."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


def tell(program: Program) -> None:
    """Lets it do a round, and does not wait for it."""
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def ask(program: Program) -> str:
    """Lets it do a round; what it says then."""
    tell(program)
    return line(program)


def ends_well(*programs: Program) -> None:
    """Every one finds all its memory as it was, to the end."""
    for program in programs:
        output, errors = said_to_the_end(program, 60)
        assert (program.returncode, output.splitlines()[-1:]) == (0, ["right"]), errors[-2000:]


def device(scheduler: Scheduler) -> admin_pb2.Device:
    """What the status says of the first device with clients."""
    return next(each for each in scheduler.status().devices if each.clients)


def swapped_bytes(scheduler: Scheduler) -> int:
    """Bytes of all clients that are out now."""
    return sum(client.swap.swapped_bytes for each in scheduler.status().devices for client in each.clients)

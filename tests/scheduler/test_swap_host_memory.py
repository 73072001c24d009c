"""Too little host memory to swap into: the real scheduler and the real library on a simulated GPU."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.programs.compiler import compiled
from tests.scheduler.cgroup import Cgroup
from tests.scheduler.situations import MIB, allocates, calls, client, opens
from tests.scheduler.wire_client import GIB, Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120)]

Serve = Callable[..., Scheduler]
Served = Callable[..., Scheduler]
Start = Callable[[int], ControlledProgram]

BYTES = 256 * MIB
"""Two of these do not fit beside each other."""
OUT_OF_MEMORY = "2"


@pytest.fixture
def served(serve: Serve, small_devices: dict[str, str]) -> Served:
    """Starts the scheduler with so much host memory."""
    options = ("--quantum", "0.3", "--reserve", "16MiB", "--host-memory")
    return lambda size, **more: serve(*options, size, environment=small_devices, **more)


@pytest.fixture
def start(start_calling: Callable[[], ControlledProgram]) -> Start:
    """Starts a program with memory in ``x``; the number tells it apart."""

    def begin(seed: int) -> ControlledProgram:
        program = start_calling()
        opens(program)
        allocates(program, "x", BYTES, seed)
        return program

    return begin


def take_turns(*programs: tuple[ControlledProgram, int], rounds: int = 3) -> None:
    """Each finds what it has written, again and again."""
    for _ in range(rounds):
        for program, seed in programs:
            assert program.do(f"wrong x {BYTES} {seed}") == "0"
            calls(program, f"stamp x {BYTES} {seed}", "cuCtxSynchronize")


def test_exhausted(served: Served, start: Start, start_calling: Callable[[], ControlledProgram]) -> None:
    """An allocation for which there is none is refused when it is made; those that are there go on in turns.

    What one that ends had is there for the others.
    """
    scheduler = served("560MiB")
    first, second, third = start(1), start(2), start_calling()
    opens(third)
    for _ in range(2):
        assert third.do(f"cuMemAlloc_v2 &x {BYTES}") == OUT_OF_MEMORY
    third.said("host memory to swap")
    take_turns((first, 1), (second, 2))
    assert second.process.stdin
    second.process.stdin.close()
    assert second.process.wait(20) == 0
    poll_until(lambda: client(scheduler, second) is None, "it is gone", 20)
    allocates(third, "x", BYTES, 3)
    take_turns((first, 1), (third, 3))


@pytest.mark.parametrize("size", ["200MiB", "250MiB", "360MiB"])
def test_what_was_allocated_can_be_used(
    served: Served, start: Start, start_calling: Callable[[], ControlledProgram], size: str
) -> None:
    """Whatever the size is: memory leaves in chunks, so that the last part of the host's may be of no use."""
    served(size)
    first, second = start(1), start_calling()
    allocates(first, "y", BYTES // 4, 2)
    opens(second)
    if second.do(f"cuMemAlloc_v2 &x {BYTES}") == OUT_OF_MEMORY:
        second.said("host memory to swap")
        take_turns((first, 1))
    else:
        calls(second, f"stamp x {BYTES} 3")
        take_turns((first, 1), (second, 3))


def test_less_than_was_promised(
    cgroup: Cgroup, served: Served, start: Start, start_calling: Callable[[], ControlledProgram]
) -> None:
    """The host's memory itself runs out while there is none for a second program yet: that is refused.

    The scheduler lives, and the first program goes on.
    """
    cgroup.limit(4 * GIB)
    scheduler = served("1GiB", cgroup=cgroup.folder)
    first, second = start(1), start_calling()
    cgroup.limit(cgroup.used() + 100 * MIB)
    opens(second)
    assert second.do(f"cuMemAlloc_v2 &x {BYTES}") == OUT_OF_MEMORY
    second.said("host memory to swap")
    assert scheduler.logged("there is less host memory than arenas may have; allocations that need more are refused")
    take_turns((first, 1))
    allocates(second, "x", 64 * MIB, 2)
    take_turns((first, 1))
    assert cgroup.killed() == 0


@pytest.mark.parametrize("size", ["0", "96MiB", "520MiB"])
def test_random_memory(
    served: Served,
    small_devices: dict[str, str],
    libraries: Libraries,
    run_dir: paths.RunDir,
    tmp_path: Path,
    size: str,
) -> None:
    """Programs whose threads allocate, write, read and free at random find every byte, and keep the scheduler."""
    swaps = compiled("swaps", build_native.TARGETS["strict"], libraries.cuda, tmp_path)
    scheduler = served(size)
    variables = small_devices | {
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(run_dir.root / "run"),
        paths.MEMORY: "swap",
    }
    with ExitStack() as stack:
        programs = []
        for seed in range(4):
            command = [str(swaps), "3", "300", str(seed)]
            pipe = subprocess.PIPE
            program = subprocess.Popen(command, env=variables, stdout=pipe, stderr=pipe, text=True)
            programs.append(stack.enter_context(program))
            stack.callback(program.kill)
        for program in programs:
            output, errors = program.communicate(timeout=100)
            assert output == "right\n", errors[-4000:]
    assert not [line for line in scheduler.log() if line["event"] == "peer disconnected"]

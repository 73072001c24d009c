"""Memory limits with the real scheduler and the real library: all processes of a container, on simulated GPUs."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.situations import calls, opens
from tests.scheduler.wire_client import Scheduler
from tests.shim.children import PROGRAMS
from tests.shim.controlled_program import ControlledProgram
from tests.stopping import stop

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

MIB = 1 << 20
TOTAL = 512 * MIB
LIMIT = 200 * MIB
OUT_OF_MEMORY = "2"
OPTIONS = ("--host-memory", "2GiB", "--reserve", "16MiB")
BACKENDS = ("swap", "managed", "native")
# Calls that take 32 MiB, and how they are undone.
KINDS = {
    "plain": ("cuMemAlloc_v2 &{0} 33554432", "cuMemFree_v2 {0}"),
    "pitch": ("cuMemAllocPitch_v2 &{0} &pitch 1048576 32 4", "cuMemFree_v2 {0}"),
    "managed": ("cuMemAllocManaged &{0} 33554432 1", "cuMemFree_v2 {0}"),
    "in stream order": ("cuMemAllocAsync &{0} 33554432 0", "cuMemFreeAsync {0} 0"),
    "virtual": ("cuMemCreate &{0} 33554432 allocation 0", "cuMemRelease {0}"),
}

Start = Callable[..., ControlledProgram]


@pytest.fixture
def base(libraries: Libraries, small_devices: dict[str, str], run_dir: RunDir) -> dict[str, str]:
    """The environment of programs of one container with a limit."""
    return small_devices | {
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(run_dir.root / "run"),
        paths.CONTAINER: "limited",
        paths.MEMORY_LIMIT: str(LIMIT),
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }


@pytest.fixture
def start(base: dict[str, str]) -> Iterator[Start]:
    """Starts such programs, which do what a test says."""
    with ExitStack() as stack:

        def begin(**variables: str) -> ControlledProgram:
            program = ControlledProgram(base | variables, name="call_loop.py")
            stack.callback(program.end)
            return program

        yield begin


def of(scheduler: Scheduler, pid: int) -> admin_pb2.Client | None:
    """The status of a process on the first GPU that it uses."""
    clients = (client for device in scheduler.status().devices for client in device.clients)
    return next((client for client in clients if client.pid == pid), None)


def is_known(scheduler: Scheduler, pid: int, name: str = "limited") -> bool:
    """Whether a process is in the container of this name."""
    client = of(scheduler, pid)
    return client is not None and client.member_of == f"{name}@{os.getuid()}"


def is_in(scheduler: Scheduler, program: ControlledProgram, name: str = "limited") -> None:
    """Opens the device, and waits until the program's container is known."""
    opens(program)
    program.do("describe 0")
    poll_until(lambda: is_known(scheduler, program.pid, name), "its container is known")


def seen(program: ControlledProgram) -> tuple[int, int]:
    """Free and total memory, as the program is told."""
    calls(program, "cuMemGetInfo_v2 &free &total")
    return int(program.do("value free")), int(program.do("value total"))


def allocates(program: ControlledProgram, name: str, size: int) -> str:
    """The result of a plain allocation."""
    return program.do(f"cuMemAlloc_v2 &{name} {size}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_call_that_allocates(scheduler: Scheduler, start: Start, backend: str, kind: str) -> None:
    """With 6 times 32 MiB of 200 the seventh fails, whatever it is; when one is freed there is room for one again."""
    make, unmake = KINDS[kind]
    program = start(**{paths.MEMORY: backend})
    is_in(scheduler, program)
    for place in range(6):
        calls(program, make.format(f"p{place}"))
    assert program.do(make.format("more")) == OUT_OF_MEMORY
    assert program.do(make.format("more")) == OUT_OF_MEMORY
    line = program.said("out of memory on device 0")
    assert f"limit {LIMIT}, used {192 * MIB}, requested {32 * MIB} bytes: the container's" in line
    assert len([said for said in program.errors if "out of memory" in said]) == 1
    calls(program, unmake.format("p3"), "cuCtxSynchronize", make.format("p3"))
    assert program.do(make.format("more")) == OUT_OF_MEMORY


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_processes_count_together(scheduler: Scheduler, start: Start, backend: str) -> None:
    """What one has the other can't have, and sees that; the other GPU has a limit of its own."""
    first, second = start(**{paths.MEMORY: backend}), start(**{paths.MEMORY: backend})
    for program in (first, second):
        is_in(scheduler, program)
    assert allocates(first, "a", 120 * MIB) == "0"
    poll_until(lambda: seen(second) == (80 * MIB, LIMIT), "the second one is told", 20)
    assert allocates(second, "b", 96 * MIB) == OUT_OF_MEMORY
    assert f"limit {LIMIT}, used {120 * MIB}, requested {96 * MIB}" in second.said("out of memory on device 0")
    assert allocates(second, "b", 80 * MIB) == "0"
    poll_until(lambda: seen(first) == (0, LIMIT), "the first one is told", 20)
    assert allocates(first, "c", 2 * MIB) == OUT_OF_MEMORY
    calls(second, "cuDevicePrimaryCtxRetain &other 1", "cuCtxSetCurrent other", f"cuMemAlloc_v2 &d {180 * MIB}")
    calls(first, "cuMemFree_v2 a")
    calls(second, "cuCtxSetCurrent primary0")
    poll_until(lambda: seen(second)[0] == 120 * MIB, "it is free again", 20)
    assert allocates(second, "e", 120 * MIB) == "0"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["plain", "in stream order"])
def test_what_one_freed_another_may_have_at_once(scheduler: Scheduler, start: Start, backend: str, kind: str) -> None:
    """Not only when the scheduler has heard of it: the library tells that late, and keeps what can't move."""
    first, second = start(**{paths.MEMORY: backend}), start(**{paths.MEMORY: backend})
    for program in (first, second):
        is_in(scheduler, program)
    make, unmake = KINDS[kind]
    make = make.replace(str(32 * MIB), str(160 * MIB))
    for _ in range(20):
        calls(first, make.format("p"), unmake.format("p"), "cuCtxSynchronize")
        calls(second, make.format("p"), unmake.format("p"), "cuCtxSynchronize")


def test_a_stopped_process_does_not_keep_others_waiting(scheduler: Scheduler, start: Start) -> None:
    """It can't say what it has: what it said last counts, and when it goes on and frees that there is room."""
    first, second = start(), start()
    for program in (first, second):
        is_in(scheduler, program)
    calls(first, f"cuMemAllocAsync &a {160 * MIB} 0", "cuCtxSynchronize")
    stop(first.pid)
    try:
        assert allocates(second, "b", 160 * MIB) == OUT_OF_MEMORY
        assert allocates(second, "b", 160 * MIB) == OUT_OF_MEMORY
    finally:
        os.kill(first.pid, signal.SIGCONT)
    calls(first, "cuMemFreeAsync a 0", "cuCtxSynchronize")
    assert allocates(second, "b", 160 * MIB) == "0"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_limit_holds_from_the_first_question_on(start: Start, run_dir: RunDir, backend: str) -> None:
    """Before there is a scheduler a program is told of the limit, and can't pass it."""
    program = start(**{paths.MEMORY: backend, paths.ON_MISSING: "run"})
    calls(program, "cuInit 0", "cuDeviceTotalMem_v2 &total 0")
    assert program.do("value total") == str(LIMIT)
    opens(program)
    assert seen(program) == (LIMIT, LIMIT)
    assert allocates(program, "a", 128 * MIB) == "0"
    assert seen(program) == (72 * MIB, LIMIT)
    assert allocates(program, "b", 74 * MIB) == OUT_OF_MEMORY
    assert f"limit {LIMIT}, used {128 * MIB}, requested {74 * MIB}" in program.said("out of memory on device 0")
    assert allocates(program, "b", 72 * MIB) == "0"
    assert seen(program) == (0, LIMIT)


def test_a_limit_above_the_device(start: Start) -> None:
    """The device's memory is what there is."""
    program = start(**{paths.MEMORY_LIMIT: "2G", paths.ON_MISSING: "run"})
    calls(program, "cuInit 0", "cuDeviceTotalMem_v2 &total 0")
    assert program.do("value total") == str(TOTAL)


def test_another_container_has_a_limit_of_its_own(scheduler: Scheduler, start: Start) -> None:
    """What its neighbour has is nothing to it, and without a limit there is none."""
    first, second = start(), start(**{paths.CONTAINER: "other"})
    third = start(**{paths.CONTAINER: "third", paths.MEMORY_LIMIT: ""})
    is_in(scheduler, first)
    is_in(scheduler, second, "other")
    is_in(scheduler, third, "third")
    for program in (first, second):
        assert allocates(program, "a", LIMIT) == "0"
        assert allocates(program, "b", 2 * MIB) == OUT_OF_MEMORY
    assert allocates(third, "a", LIMIT + 100 * MIB) == "0"


def set_limit(scheduler: Scheduler, limit: int) -> None:
    """As nvshare-ctl does."""
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container="limited", memory_limit_bytes=limit), timeout=20)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_limit_changes(scheduler: Scheduler, start: Start, backend: str) -> None:
    """A lower one takes nothing away and lets nothing more be had; a higher one counts at once."""
    program = start(**{paths.MEMORY: backend})
    is_in(scheduler, program)
    assert allocates(program, "a", 160 * MIB) == "0"
    set_limit(scheduler, 100 * MIB)
    poll_until(lambda: seen(program) == (0, 100 * MIB), "it is told", 20)
    assert allocates(program, "b", 2 * MIB) == OUT_OF_MEMORY
    calls(program, f"cuMemsetD8_v2 a 1 {160 * MIB}", "cuCtxSynchronize")
    set_limit(scheduler, 300 * MIB)
    poll_until(lambda: seen(program) == (140 * MIB, 300 * MIB), "it is told", 20)
    assert allocates(program, "b", 140 * MIB) == "0"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_limit_outlives_the_scheduler(
    serve: Callable[..., Scheduler], small_devices: dict[str, str], start: Start, backend: str
) -> None:
    """While there is none it holds as it was told last, the operator's word included; the next scheduler goes on."""
    scheduler = serve(*OPTIONS, environment=small_devices)
    program = start(**{paths.MEMORY: backend})
    is_in(scheduler, program)
    set_limit(scheduler, 100 * MIB)
    assert allocates(program, "a", 60 * MIB) == "0"
    poll_until(lambda: seen(program) == (40 * MIB, 100 * MIB), "it is told", 20)
    scheduler.kill()
    program.said("lost the scheduler")
    assert allocates(program, "b", 42 * MIB) == OUT_OF_MEMORY
    scheduler = serve(*OPTIONS, environment=small_devices)
    poll_until(lambda: of(scheduler, program.pid), "it is back", 20)
    assert allocates(program, "b", 42 * MIB) == OUT_OF_MEMORY
    assert allocates(program, "b", 40 * MIB) == "0"


def test_a_forked_child_counts_as_one_more(scheduler: Scheduler, base: dict[str, str]) -> None:
    """It has what its parent left, not a limit of its own."""
    program = """
import ctypes, os, sys
driver = ctypes.CDLL("libcuda.so.1")
def take(size):
    context, place = ctypes.c_void_p(), ctypes.c_ulonglong()
    driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context)
    print(driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size << 20)), flush=True)
if child := os.fork():
    take(150)
    os.waitpid(child, 0)
else:
    sys.stdin.readline()
    take(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], env=base, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        process.stdin.write(b"\n")
        assert process.stdout.readline() == b"2\n"


@pytest.mark.parametrize("seed", range(2))
def test_processes_and_threads_at_random(
    scheduler: Scheduler, start: Start, base: dict[str, str], tmp_path: Path, seed: int
) -> None:
    """Three processes of two threads never have more than the limit together; then one of them can have all of it."""
    total = tmp_path / "sum"
    total.write_bytes(struct.pack("q", 0))
    with ExitStack() as stack:
        started = []
        for each in range(3):
            command = [sys.executable, str(PROGRAMS / "limit_stress.py"), str(total), str(3 * seed + each), "200"]
            process = subprocess.Popen(command, env=base, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            stack.callback(_end, process)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            poll_until(partial(is_known, scheduler, process.pid), "its container is known")
        for process in started:
            assert process.stdin is not None
            process.stdin.write(b"\n")
        words = [process.stdout.readline().split() for process in started if process.stdout is not None]
        assert all(len(line) == 2 for line in words), words
        assert sum(int(line[1]) for line in words), "nothing was refused: the test is too easy"
        last = start()
        is_in(scheduler, last)
        assert allocates(last, "all", LIMIT) == "0", last.errors


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()

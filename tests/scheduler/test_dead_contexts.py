"""Programs whose kernel faulted and that live on: they keep nobody from the GPU, and are answered as without us."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import GANG, LD_PRELOAD, RUN_DIR, RunDir
from nvshare.simgpu import record, transfers
from nvshare.simgpu.turns import overlaps
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.swapping_programs import Serve, ends_well, programs
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

DEVICES = "2x1GiB/32MiB"
SERVED = ("--quantum", "0.3", "--host-memory", "4GiB", "--reserve", "32MiB")
DEAD = "its context is dead: CUDA_ERROR_ILLEGAL_ADDRESS; end it"
FAULT = "700"

StartFaulty = Callable[..., ControlledProgram]


@pytest.fixture
def faulty(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[StartFaulty]:
    """Starts ``faulty.py``; ``shared``: under the library."""
    started: list[ControlledProgram] = []

    def begin(ordinal: int = 0, *, shared: bool = True, gang: str = "") -> ControlledProgram:
        variables = simgpu.environment(tmp_path / "simgpu", DEVICES) | {
            RUN_DIR: str(run_dir.root / "run"),
            "NVSHARE_MEMORY": "swap",
            "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
            "PATH": "/usr/bin:/bin",
        }
        if shared:
            variables[LD_PRELOAD] = str(libraries.shim)
        if gang:
            variables[GANG] = gang
        started.append(ControlledProgram(variables, name="faulty.py", arguments=(str(ordinal),)))
        return started[-1]

    yield begin
    for program in started:
        program.end()


@pytest.fixture
def scheduler(serve: Serve, tmp_path: Path) -> Scheduler:
    """One that sees the simulated GPUs."""
    return serve(*SERVED, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))


@pytest.fixture
def needs_room(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """A program that needs nearly all of a device runs to its end, and finds its memory as it was."""
    with programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as start:
        yield lambda: ends_well(start(700, 3))


def notices(scheduler: Scheduler, program: ControlledProgram) -> list[str]:
    """What the status says of it."""
    clients = [client for device in scheduler.status().devices for client in device.clients]
    return [notice for client in clients if client.pid == program.pid for notice in client.notices]


def shown(scheduler: Scheduler, program: ControlledProgram) -> None:
    """The status comes to say that it is dead."""
    poll_until(lambda: notices(scheduler, program) == [DEAD], "the status shows it")


def has_memory(program: ControlledProgram, mebibytes: int = 600) -> None:
    """It has so much memory of each kind, all of it written to."""
    assert program.do(f"use {mebibytes}") == "0"


def faults(program: ControlledProgram) -> None:
    """Its kernel does, and nobody has asked about it yet."""
    assert program.do("fault") == "0"


CALLS = ("synchronize", "query", "launch", "copy", "set", "alloc", "free", "info", "alloc_async", "unmap", "query")


def test_it_is_answered_as_without_the_library(
    scheduler: Scheduler, faulty: StartFaulty, needs_room: Callable[[], None]
) -> None:
    """Each call at once, and as natively, before and after its memory has left; nothing of it is on the GPU then."""
    native, shared = faulty(shared=False), faulty()
    for program in (native, shared):
        has_memory(program, 300)
        faults(program)
    for call in CALLS:
        assert (call, shared.do(call)) == (call, native.do(call))
    native.end()
    shown(scheduler, shared)
    shared.said("CUDA_ERROR_ILLEGAL_ADDRESS")
    needs_room()
    for call in CALLS:
        assert shared.do(call) in (FAULT, "0"), call
    assert shared.do("launch") == FAULT


def test_the_holder_faults_and_lives_on(
    scheduler: Scheduler, faulty: StartFaulty, needs_room: Callable[[], None], tmp_path: Path
) -> None:
    """It makes no call at all, and who needs all the memory is served; its next call is answered at once."""
    program = faulty()
    has_memory(program)
    faults(program)
    needs_room()
    assert program.do("launch") == FAULT
    assert notices(scheduler, program) == [DEAD]
    [client] = [each for each in scheduler.status().devices[0].clients if each.pid == program.pid]
    assert client.swap.resident_bytes == 0
    assert overlaps(transfers.work(record.read(tmp_path / "simgpu", 0))) == []


def test_one_that_waits_finds_that_it_is_dead(
    scheduler: Scheduler, faulty: StartFaulty, needs_room: Callable[[], None]
) -> None:
    """It submits on while another one has asked for its turn: it comes not in line again."""
    first, second = faulty(), faulty()
    for program in (first, second):
        has_memory(program, 400)
    faults(first)
    second.begin("rounds 20")
    answers = {first.do("launch") for _ in range(50)}
    assert answers <= {"0", FAULT}
    assert second.answer() == "0"
    assert first.do("launch") == FAULT
    faults(second)
    needs_room()
    assert second.do("synchronize") == FAULT


def test_its_memory_was_out_when_it_faulted(
    scheduler: Scheduler, faulty: StartFaulty, needs_room: Callable[[], None]
) -> None:
    """Some of its memory comes for the turn in which it faults, and leaves for good after it."""
    program = faulty()
    has_memory(program)
    needs_room()
    faults(program)
    needs_room()
    needs_room()
    assert program.do("launch") == FAULT


def test_the_scheduler_dies_meanwhile(
    scheduler: Scheduler, serve: Serve, faulty: StartFaulty, needs_room: Callable[[], None], tmp_path: Path
) -> None:
    """The next one hears of the dead one, from who held the lock as from who had given it back."""
    program = faulty()
    has_memory(program)
    faults(program)
    for _ in range(2):
        scheduler.kill()
        assert program.do("launch") == FAULT
        scheduler = serve(*SERVED, environment=simgpu.environment(tmp_path / "simgpu", DEVICES))
        needs_room()
        shown(scheduler, program)
        assert program.do("launch") == FAULT


def test_a_context_made_anew(scheduler: Scheduler, faulty: StartFaulty, needs_room: Callable[[], None]) -> None:
    """The driver lets the dead one end, and makes no other one; with the library or without."""
    programs = [faulty(), faulty(shared=False)]
    for program in programs:
        has_memory(program, 100)
        faults(program)
        assert program.do("synchronize") == FAULT
        assert program.do("reset") == "0"
        assert [program.do(call) for call in ("open", "open")] == [FAULT, FAULT]
    needs_room()
    shown(scheduler, programs[0])
    assert [program.do("unmap") for program in programs] == ["0", "0"]


def test_a_member_of_a_gang_faults(scheduler: Scheduler, faulty: StartFaulty, needs_room: Callable[[], None]) -> None:
    """The other one, on another GPU, goes on, and who waits behind the gang is served."""
    dead, alive = faulty(gang="job"), faulty(1, gang="job")
    for program in (dead, alive):
        has_memory(program)
    faults(dead)
    assert alive.do("rounds 5") == "0"
    needs_room()
    assert dead.do("launch") == FAULT
    assert alive.do("check") == "0"
    alive.begin("rounds 30")
    needs_room()
    assert alive.answer() == "0"


def test_it_is_asked_to_end(scheduler: Scheduler, faulty: StartFaulty, needs_room: Callable[[], None]) -> None:
    """SIGINT is served: no call of it is stuck."""
    program = faulty()
    has_memory(program)
    faults(program)
    needs_room()
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(20) != 0

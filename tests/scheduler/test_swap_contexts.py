"""Contexts and processes that end while their memory is out: the real scheduler and the real library."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.polling import poll_until
from tests.scheduler.situations import (
    MIB,
    allocates,
    calls,
    client,
    opens,
    out_bytes,
    pushes_out,
)
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120)]

Start = Callable[[], ControlledProgram]

BYTES = 128 * MIB
"""In chunks none of which can stay beside the neighbour."""


@pytest.fixture
def program(scheduler: Scheduler, start_calling: Start) -> ControlledProgram:
    """Has memory in the primary context."""
    program = start_calling()
    opens(program)
    allocates(program, "kept", BYTES, 1)
    return program


def footprint(scheduler: Scheduler, program: ControlledProgram) -> int:
    """As the status shows it."""
    found = client(scheduler, program)
    assert found
    return found.footprint_bytes


def test_a_context_is_destroyed(scheduler: Scheduler, program: ControlledProgram, start_calling: Start) -> None:
    """With what it had; the other context's memory stays, and that of the next one moves as well."""
    neighbour = start_calling()
    calls(program, "cuCtxCreate_v2 &own 0 0")
    allocates(program, "x", BYTES, 2)
    allocates(program, "y", 1000, 3)
    pushes_out(scheduler, neighbour, program, 2 * BYTES)
    calls(program, "cuCtxDestroy_v2 own")
    poll_until(lambda: footprint(scheduler, program) < BYTES + 3 * MIB, "what it had is gone", 20)
    assert program.do("cuMemFree_v2 x") == "1"
    calls(program, "cuCtxCreate_v2 &own 0 0")
    program.do("forget")
    allocates(program, "x", BYTES, 4)
    calls(neighbour, f"stamp all {440 * MIB} 98", "cuCtxSynchronize")
    poll_until(lambda: out_bytes(scheduler, program) >= 2 * BYTES, "both are out", 20)
    assert program.do(f"wrong x {BYTES} 4") == "0"
    calls(program, "cuCtxSetCurrent primary0")
    assert program.do(f"wrong kept {BYTES} 1") == "0"
    assert neighbour.do(f"wrong all {440 * MIB} 98") == "0"


@pytest.mark.parametrize("end", ["cuDevicePrimaryCtxReset_v2 0", "cuDevicePrimaryCtxRelease_v2 0"])
def test_the_primary_context_ends(
    scheduler: Scheduler, program: ControlledProgram, start_calling: Start, end: str
) -> None:
    """What it had is gone, and the next one's memory moves again."""
    neighbour = start_calling()
    pushes_out(scheduler, neighbour, program, BYTES)
    for seed in (2, 3):
        calls(program, end)
        poll_until(lambda: footprint(scheduler, program) == 0, "what it had is gone", 20)
        assert program.do("cuMemAlloc_v2 &kept 1000") != "0"
        opens(program)
        program.do("forget")
        allocates(program, "kept", BYTES, seed)
        calls(neighbour, f"stamp all {440 * MIB} 98", "cuCtxSynchronize")
        poll_until(lambda: out_bytes(scheduler, program) >= BYTES, "it is out", 20)
        assert program.do(f"wrong kept {BYTES} {seed}") == "0"
        calls(neighbour, f"stamp all {440 * MIB} 98", "cuCtxSynchronize")
        poll_until(lambda: out_bytes(scheduler, program) >= BYTES, "it is out", 20)
    assert neighbour.do(f"wrong all {440 * MIB} 98") == "0"


def test_a_context_is_destroyed_while_its_memory_leaves(
    scheduler: Scheduler, program: ControlledProgram, start_calling: Start
) -> None:
    """The rest of it has not to leave any more, and the other context's memory does."""
    neighbour = start_calling()
    pushes_out(scheduler, neighbour, program, BYTES)
    for seed in range(2, 6):
        calls(program, "cuCtxCreate_v2 &own 0 0")
        program.do("forget")
        allocates(program, "x", BYTES, seed)
        neighbour.begin("spin 1")
        poll_until(lambda: out_bytes(scheduler, program), "it leaves", 20)
        calls(program, "cuCtxDestroy_v2 own", "cuCtxSetCurrent primary0")
        assert neighbour.answer() == "0"
        program.do("forget")
        assert program.do(f"wrong kept {BYTES} 1") == "0"
    assert neighbour.do(f"wrong all {440 * MIB} 99") == "0"


@pytest.mark.parametrize("moves", [False, True], ids=["at rest", "moving"])
def test_a_process_ends(scheduler: Scheduler, program: ControlledProgram, start_calling: Start, moves: bool) -> None:
    """As its author wanted it; what it had is free for others, on the device and on the host."""
    neighbour, other = start_calling(), start_calling()
    pushes_out(scheduler, neighbour, program, BYTES)
    if moves:
        assert program.do(f"wrong kept {BYTES} 1") == "0"
        neighbour.begin("spin 1")
        poll_until(lambda: out_bytes(scheduler, program), "it moves", 20)
    assert program.process.stdin
    program.process.stdin.close()
    assert program.process.wait(20) == 0
    assert program.errors == []
    assert not moves or neighbour.answer() == "0"
    poll_until(lambda: client(scheduler, program) is None, "it is gone", 20)
    opens(other)
    allocates(other, "all", 400 * MIB, 5)
    assert neighbour.do(f"wrong all {440 * MIB} 99") == "0"
    assert other.do(f"wrong all {400 * MIB} 5") == "0"

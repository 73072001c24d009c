"""Submissions after the last context has ended: the real scheduler and the real library."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.polling import poll_until
from tests.scheduler.situations import MIB, NEIGHBOUR_BYTES, calls, client, opens, pushes_out
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120)]

Start = Callable[[], ControlledProgram]

BYTES = 128 * MIB
DESTROYED, INVALID = "709", "201"


def has_own_memory(program: ControlledProgram) -> None:
    """By the driver's virtual memory calls, which no context owns; written."""
    calls(
        program,
        f"cuMemAddressReserve &own {BYTES} 0 0 0",
        f"cuMemCreate &handle {BYTES} allocation 0",
        f"cuMemMap own {BYTES} 0 handle 0",
        f"cuMemSetAccess own {BYTES} access 1",
        f"stamp own {BYTES} 7",
        "cuCtxSynchronize",
    )


@pytest.mark.parametrize("end", ["cuDevicePrimaryCtxReset_v2 0", "cuDevicePrimaryCtxRelease_v2 0"])
def test_memory_of_no_context_is_out(scheduler: Scheduler, start_calling: Start, end: str) -> None:
    """A submission fails as it does natively, and nobody waits for memory that no context can bring in."""
    program, neighbour = start_calling(), start_calling()
    opens(program)
    program.do("describe 0")
    has_own_memory(program)
    pushes_out(scheduler, neighbour, program, BYTES)
    calls(program, end)
    for call in ("cuMemsetD8_v2 own 1 1000", "cuLaunchKernel 0 1 1 1 1 1 1 0 0 0 0", "cuMemsetD8_v2 own 1 1000"):
        program.begin(call)
        calls(neighbour, f"stamp all {NEIGHBOUR_BYTES} 98", "cuCtxSynchronize")
        assert program.answer() in (DESTROYED, INVALID), call
    program.do("forget")
    opens(program)
    assert program.do(f"wrong own {BYTES} 7") == "0"
    assert neighbour.do(f"wrong all {NEIGHBOUR_BYTES} 98") == "0"


def test_the_context_ends_while_a_submission_waits(scheduler: Scheduler, start_calling: Start) -> None:
    """What waits for its turn in that context fails then, and the turn is nobody's."""
    program, neighbour = start_calling(), start_calling()
    opens(program)
    program.do("describe 0")
    has_own_memory(program)
    pushes_out(scheduler, neighbour, program, BYTES)
    for _ in range(3):
        calls(neighbour, "spin 1000")
        calls(program, "beside cuMemsetD8_v2 own 1 1000")
        poll_until(lambda: waits(scheduler, program), "it waits", 20)
        calls(program, "cuDevicePrimaryCtxReset_v2 0")
        assert program.do("joined") in (DESTROYED, INVALID)
        calls(neighbour, f"stamp all {NEIGHBOUR_BYTES} 98", "cuCtxSynchronize")
        opens(program)


def waits(scheduler: Scheduler, program: ControlledProgram) -> bool:
    """For the lock, as the status says."""
    found = client(scheduler, program)
    return found is not None and found.state == "waiting"

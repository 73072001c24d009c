"""Programs with memory on two devices: the real scheduler and the real library on simulated GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.admin import admin_pb2
from nvshare.simgpu import record
from nvshare.simgpu.turns import Kind, overlaps
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

BYTES = 256 * MIB
"""Two of these do not fit beside each other."""


@pytest.fixture
def start_both(scheduler: Scheduler, start_calling: Start) -> Callable[[], ControlledProgram]:
    """Starts programs with memory on both devices, ``on0`` and ``on1``."""

    def begin() -> ControlledProgram:
        program = start_calling()
        for ordinal in (0, 1):
            opens(program, ordinal)
            allocates(program, f"on{ordinal}", BYTES, ordinal)
        return program

    return begin


def is_right(program: ControlledProgram, ordinal: int, seed: int) -> None:
    """The memory on one device is as it was stamped."""
    calls(program, f"cuCtxSetCurrent primary{ordinal}")
    assert program.do(f"wrong on{ordinal} {BYTES} {seed}") == "0"


def test_one_device_does_not_wait_for_the_other(scheduler: Scheduler, start_both: Start, start_calling: Start) -> None:
    """A process works on one of them while its memory is out on the other, whose lock somebody has."""
    program, neighbour = start_both(), start_calling()
    pushes_out(scheduler, neighbour, program, BYTES)
    calls(neighbour, "spin 60000")
    poll_until(lambda: (found := client(scheduler, neighbour)) and found.state == "holding", "it holds", 20)
    calls(program, "cuCtxSetCurrent primary1")
    for seed in range(1, 4):
        is_right(program, 1, seed)
        calls(program, f"stamp on1 {BYTES} {seed + 1}", "cuCtxSynchronize")
    assert (out_bytes(scheduler, program), out_bytes(scheduler, program, 1)) == (BYTES, 0)
    neighbour.end()
    is_right(program, 0, 0)


def take_turns(scheduler_folder: Path) -> None:
    """Never did kernels of two processes run beside each other on a device. (Memory comes in while other leaves.)"""
    for ordinal in (0, 1):
        kernels = [span for span in record.read(scheduler_folder, ordinal) if span.kind is Kind.KERNEL]
        assert overlaps(kernels) == []


def test_opposite_orders(start_both: Start, tmp_path: Path) -> None:
    """Two processes that go from device to device, one the other way round, always have something."""
    programs = [start_both(), start_both()]
    for seed in range(10, 22):
        for program, ordinal in zip(programs, (seed % 2, 1 - seed % 2), strict=True):
            calls(program, f"cuCtxSetCurrent primary{ordinal}")
            program.begin(f"stamp on{ordinal} {BYTES} {seed}")
        assert [program.answer() for program in programs] == ["0", "0"]
    for program, last in zip(programs, (1, 0), strict=True):
        is_right(program, last, 21)
        is_right(program, 1 - last, 20)
    take_turns(tmp_path / "simgpu")


def test_devices_that_reach_each_other_are_held_together(scheduler: Scheduler, start_calling: Start) -> None:
    """From the call on that lets them, and those of another process are another gang: work on one takes both locks."""
    programs = [start_calling(), start_calling()]
    for program in programs:
        for ordinal in (0, 1):
            opens(program, ordinal)
        assert not any(found.HasField("gang") for found in on_both(scheduler, program))
        calls(program, "cuCtxEnablePeerAccess primary0 0")
        assert [found.gang.members for found in on_both(scheduler, program)] == [2, 2]
    gangs = [{found.gang.name for found in on_both(scheduler, program)} for program in programs]
    assert len(gangs[0]) == len(gangs[1]) == 1
    assert gangs[0] != gangs[1]
    before = [found.grants for found in on_both(scheduler, programs[0])]
    calls(programs[0], "spin 1", "cuCtxSynchronize")
    assert [found.grants for found in on_both(scheduler, programs[0])] == [grants + 1 for grants in before]


def on_both(scheduler: Scheduler, program: ControlledProgram) -> list[admin_pb2.Client]:
    """What the status says of a program on both devices."""
    return [found for ordinal in (0, 1) if (found := client(scheduler, program, ordinal)) is not None]


def test_kernels_that_need_both(start_both: Start, tmp_path: Path) -> None:
    """Two processes whose devices reach each other, each launching on another one than its memory is on."""
    programs = [start_both(), start_both()]
    for program in programs:
        for ordinal in (0, 1):
            calls(program, f"cuCtxSetCurrent primary{ordinal}", f"cuCtxEnablePeerAccess primary{1 - ordinal} 0")
    for seed in range(10, 16):
        for program, ordinal in zip(programs, (0, 1), strict=True):
            calls(program, f"cuCtxSetCurrent primary{ordinal}")
            program.begin(f"stamp on{1 - ordinal} {BYTES} {seed}")
        assert [program.answer() for program in programs] == ["0", "0"]
    for program, ordinal in zip(programs, (0, 1), strict=True):
        calls(program, f"cuCtxSetCurrent primary{ordinal}", "cuCtxSynchronize")
        is_right(program, ordinal, ordinal)
        is_right(program, 1 - ordinal, 15)
    take_turns(tmp_path / "simgpu")


def test_work_that_reaches_the_other_device_waits_for_what_is_submitted_later(
    scheduler: Scheduler, start_both: Start, start_calling: Callable[..., ControlledProgram]
) -> None:
    """The other one's turn ends all the same, where the program wants to be no gang."""
    program, neighbour = start_calling({paths.GANG: "0"}), start_both()
    for ordinal in (0, 1):
        opens(program, ordinal)
        allocates(program, f"on{ordinal}", BYTES, ordinal)
    for ordinal in (0, 1):
        calls(program, f"cuCtxSetCurrent primary{ordinal}", f"cuCtxEnablePeerAccess primary{1 - ordinal} 0")
    calls(program, "cuMemAlloc_v2 &value 4096", "cuMemsetD32_v2 value 0 1", "cuCtxSynchronize")
    calls(program, "cuStreamCreate &waits 1", "cuStreamCreate &writes 1", "cuStreamWaitValue32_v2 waits value 1 1")
    calls(neighbour, "cuCtxSetCurrent primary0")
    neighbour.begin(f"stamp on0 {BYTES} 7")
    poll_until(lambda: "leaving" in {found.state for found in on_both(scheduler, program)}, "it is to leave", 20)
    calls(program, "cuStreamWriteValue32_v2 writes value 1 0", "cuStreamSynchronize waits")
    assert neighbour.answer() == "0"
    is_right(program, 0, 0)
    is_right(program, 1, 1)

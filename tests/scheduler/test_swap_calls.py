"""Calls of a program whose memory is out: the real scheduler and the real library on a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.polling import poll_until
from tests.scheduler.situations import (
    CHUNK,
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

PLAIN_BYTES = 130 * MIB
MAPPED_BYTES = 100 * MIB


@pytest.fixture
def program(scheduler: Scheduler, start_calling: Start) -> ControlledProgram:
    """Has memory in ``plain``, ``small`` and, mapped by itself, ``mapped``."""
    program = start_calling()
    opens(program)
    allocates(program, "plain", PLAIN_BYTES, 1)
    allocates(program, "small", 1024, 2)
    program.do("describe 0")
    calls(
        program,
        f"cuMemCreate &handle {MAPPED_BYTES} allocation 0",
        f"cuMemAddressReserve &mapped {4 * MAPPED_BYTES} 0 0 0",
        f"cuMemMap mapped {MAPPED_BYTES} 0 handle 0",
        f"cuMemSetAccess mapped {MAPPED_BYTES} access 1",
        f"stamp mapped {MAPPED_BYTES} 3",
        "cuCtxSynchronize",
    )
    return program


@pytest.fixture
def neighbour(scheduler: Scheduler, program: ControlledProgram, start_calling: Start) -> ControlledProgram:
    """Has pushed out all of the program's memory but some small allocations."""
    neighbour = start_calling()
    pushes_out(scheduler, neighbour, program, PLAIN_BYTES + MAPPED_BYTES - 2 * MIB)
    return neighbour


def everything_is_right(program: ControlledProgram) -> None:
    """What it wrote first is there."""
    for name, size, seed in (("plain", PLAIN_BYTES, 1), ("small", 1024, 2), ("mapped", MAPPED_BYTES, 3)):
        assert (name, program.do(f"wrong {name} {size} {seed}")) == (name, "0")


def takes_again(scheduler: Scheduler, neighbour: ControlledProgram, program: ControlledProgram) -> None:
    """The neighbour works once more, and the program's memory is out again."""
    calls(neighbour, f"stamp all {MIB} 98", "cuCtxSynchronize")
    poll_until(lambda: out_bytes(scheduler, program) >= PLAIN_BYTES + MAPPED_BYTES - 2 * MIB, "it is out", 20)


@pytest.mark.parametrize("holds", [False, True])
def test_what_one_freed_another_may_have_at_once(scheduler: Scheduler, start_calling: Start, holds: bool) -> None:
    """Of pools, which the library keeps counting for the next step of a program that computes."""
    first, second = start_calling(), start_calling()
    for program in (first, second):
        opens(program)
        allocates(program, "own", MIB, 1)
        program.do("describe 0")
    for _ in range(10):
        for program in (first, second):
            if holds:
                calls(program, f"stamp own {MIB} 2", "cuCtxSynchronize")
            calls(program, f"cuMemAllocAsync &p {300 * MIB} 0", "cuMemFreeAsync p 0", "cuCtxSynchronize")


QUESTIONS: dict[str, dict[str, int | str]] = {
    "cuMemGetAddressRange_v2 &start &size plain+70000000": {"start": "plain", "size": PLAIN_BYTES},
    "cuMemGetAddressRange_v2 &start &size small": {"start": "small", "size": 1024},
    "cuMemGetAddressRange_v2 &start &size mapped+70000000": {"start": "mapped", "size": MAPPED_BYTES},
    "cuPointerGetAttribute &answer 2 plain+1": {"answer": 2},
    "cuPointerGetAttribute &answer 9 mapped+1": {"answer": 0},
    "cuPointerGetAttribute &answer 1 small": {"answer": "primary0"},
    "cuPointerGetAttributes 1 &range_size &place plain+5": {"answer": PLAIN_BYTES},
    "cuMemRetainAllocationHandle &again mapped": {"again": "handle"},
}


def test_answers_beside_a_holder(
    scheduler: Scheduler, program: ControlledProgram, neighbour: ControlledProgram
) -> None:
    """Questions, allocating, mapping and freeing need neither the lock nor the memory; what is used then is right."""
    calls(neighbour, "spin 60000")
    poll_until(lambda: (found := client(scheduler, neighbour)) and found.state == "holding", "it holds", 20)
    program.do("let range_size 12")
    program.do("let place &answer")
    for question, answers in QUESTIONS.items():
        program.do("let answer 0")
        calls(program, question)
        for name, expected in answers.items():
            value = program.do(f"value {expected}") if isinstance(expected, str) else str(expected)
            assert (question, program.do(f"value {name}")) == (question, value)
    calls(
        program,
        "cuMemGetInfo_v2 &free &total",
        "cuMemFree_v2 small",
        "cuMemAlloc_v2 &small 1024",
        "cuMemAlloc_v2 &new 20000000",
        f"cuMemUnmap mapped {MAPPED_BYTES}",
        f"cuMemMap mapped+{2 * MAPPED_BYTES} {MAPPED_BYTES} 0 handle 0",
        f"cuMemSetAccess mapped+{2 * MAPPED_BYTES} {MAPPED_BYTES} access 1",
        f"cuMemCreate &second {CHUNK} allocation 0",
        f"cuMemMap mapped {CHUNK} 0 second 0",
        f"cuMemSetAccess mapped {CHUNK} access 1",
        "cuMemRelease handle",
        "cuMemRelease again",
    )
    assert program.do("cuMemFree_v2 small+2") == "1"
    found = client(scheduler, program)
    assert found
    assert (found.state, found.grants, found.swap.swapped_bytes >= PLAIN_BYTES) == ("idle", 1, True)
    neighbour.end()
    assert program.do(f"wrong plain {PLAIN_BYTES} 1") == "0"
    assert program.do(f"wrong mapped+{2 * MAPPED_BYTES} {MAPPED_BYTES} 3") == "0"
    for name, size in (("small", 1024), ("new", 20_000_000), ("mapped", CHUNK)):
        calls(program, f"stamp {name} {size} 4")
        assert program.do(f"wrong {name} {size} 4") == "0"


COPIES = (
    (f"cuMemcpyHtoD_v2 plain+{62 * MIB} host 262144", f"wrong plain+{62 * MIB} 262144 7"),
    (f"cuMemcpyHtoDAsync_v2 mapped+{62 * MIB} host 262144 0", f"wrong mapped+{62 * MIB} 262144 7"),
    (f"cuMemcpyDtoD_v2 mapped plain+{62 * MIB} 262144", "wrong mapped 262144 7"),
    (f"cuMemcpyDtoDAsync_v2 plain mapped+{62 * MIB} 262144 0", "wrong plain 262144 7"),
    (f"cuMemcpyAsync plain+{129 * MIB} mapped+{62 * MIB} 262144 0", f"wrong plain+{129 * MIB} 262144 7"),
    ("cuMemcpyDtoH_v2 host small 1024", "held 1024 2"),
    ("cuMemcpyDtoHAsync_v2 host plain+100000000 262144 0", "cuCtxSynchronize"),
    ("cuMemsetD8_v2 plain 0 10000000", "cuCtxSynchronize"),
    (f"cuMemsetD32Async mapped+{63 * MIB} 7 {MIB} 0", "cuCtxSynchronize"),
)


def test_copies_bring_it_back(scheduler: Scheduler, program: ControlledProgram, neighbour: ControlledProgram) -> None:
    """Each, whatever it copies from or to."""
    program.do("stamped 262144 7")
    for copy, look in COPIES:
        calls(program, copy)
        assert (copy, program.do(look)) in ((copy, "0"), (copy, "True"))
        takes_again(scheduler, neighbour, program)
    assert neighbour.do(f"wrong all+{CHUNK} {CHUNK} 99") != "0"


def test_a_graph_from_before(scheduler: Scheduler, program: ControlledProgram, neighbour: ControlledProgram) -> None:
    """Captured and instantiated long ago, it works on memory that was out, each time anew."""
    calls(
        program,
        "cuStreamCreate &stream 1",
        "cuStreamBeginCapture_v2 stream 0",
        f"stamp plain {PLAIN_BYTES} 5 stream",
        f"cuMemcpyDtoDAsync_v2 mapped plain {MAPPED_BYTES} stream",
        "cuMemsetD8Async small 0 1024 stream",
        "cuStreamEndCapture stream &graph",
        "cuGraphInstantiateWithFlags &first graph 0",
    )
    takes_again(scheduler, neighbour, program)
    calls(program, "cuGraphInstantiateWithFlags &second graph 0", "cuGraphDestroy graph")
    for executable in ("first", "second", "first"):
        calls(program, f"cuMemsetD8_v2 plain 1 {PLAIN_BYTES}", f"cuMemsetD8_v2 mapped 1 {MAPPED_BYTES}")
        takes_again(scheduler, neighbour, program)
        calls(program, f"cuGraphLaunch {executable} stream", "cuStreamSynchronize stream")
        takes_again(scheduler, neighbour, program)
        assert program.do(f"wrong plain {PLAIN_BYTES} 5") == "0"
        assert program.do(f"wrong mapped {MAPPED_BYTES} 5") == "0"
    calls(program, "cuGraphExecDestroy first", "cuGraphExecDestroy second")


def test_a_capture_keeps_the_memory(scheduler: Scheduler, program: ControlledProgram, start_calling: Start) -> None:
    """Who wants its room waits until the capture has ended."""
    neighbour = start_calling()
    opens(neighbour)
    calls(neighbour, f"cuMemAlloc_v2 &all {440 * MIB}")
    calls(program, "cuStreamCreate &stream 1", "cuStreamBeginCapture_v2 stream 0")
    neighbour.begin(f"stamp all {440 * MIB} 99")
    poll_until(lambda: (found := client(scheduler, neighbour)) and found.state == "waiting", "it waits", 20)
    calls(program, f"stamp plain {PLAIN_BYTES} 5 stream")
    poll_until(lambda: (found := client(scheduler, program)) and found.state == "leaving", "it is asked to leave", 20)
    calls(program, f"cuMemcpyDtoDAsync_v2 mapped plain {MAPPED_BYTES} stream")
    assert out_bytes(scheduler, program) == 0
    assert not neighbour.answered()
    calls(program, "cuStreamEndCapture stream &graph")
    assert neighbour.answer() == "0"
    poll_until(lambda: out_bytes(scheduler, program) > PLAIN_BYTES, "it is out", 20)
    calls(program, "cuGraphInstantiateWithFlags &executable graph 0", "cuGraphLaunch executable stream")
    calls(program, "cuStreamSynchronize stream")
    assert program.do(f"wrong mapped {MAPPED_BYTES} 5") == "0"
    assert neighbour.do(f"wrong all {440 * MIB} 99") == "0"


@pytest.mark.parametrize("does", ["leaves", "ends", "executes"])
def test_a_fork(scheduler: Scheduler, program: ControlledProgram, neighbour: ControlledProgram, does: str) -> None:
    """While memory is out, and while it moves: the child is nobody to the scheduler, and the parent loses nothing."""
    before = client(scheduler, program)
    assert before
    assert program.do(f"fork {does}") == "0"
    for _ in range(3):
        after = client(scheduler, program)
        assert after
        assert (after.id, after.swap.swapped_bytes) == (before.id, before.swap.swapped_bytes)
        everything_is_right(program)
        neighbour.begin(f"stamp all {440 * MIB} 98")
        while not neighbour.answered():
            assert program.do(f"fork {does}") == "0"
        assert neighbour.answer() == "0"
        takes_again(scheduler, neighbour, program)
    assert len(scheduler.states()) == 2
    assert not [line for line in scheduler.log() if "disconnected" in str(line["event"])]
    everything_is_right(program)

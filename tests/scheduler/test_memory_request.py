"""Memory requests with the real scheduler and the real library: who stays on a simulated GPU while others borrow it.

The GPUs have 512 MiB; beside the reserve and what is kept for contexts a program can have some 430 MiB.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from nvshare import paths
from nvshare.admin import admin_pb2
from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.conftest import SOURCE_ROOT, Libraries
from tests.polling import poll_until
from tests.scheduler.situations import OPTIONS, allocates, client, opens, out_bytes
from tests.scheduler.wire_client import GIB, Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

MIB = 1 << 20
KEPT = 128 * MIB
OTHERS = 240 * MIB
OUT_OF_MEMORY = "2"
Start = Callable[..., ControlledProgram]
Serving = Callable[[], Scheduler]


@pytest.fixture
def start(libraries: Libraries, small_devices: dict[str, str], run_dir: RunDir) -> Iterator[Start]:
    """Starts a program in a container of this name, with a request if it has one."""
    base = small_devices | {
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(run_dir.root / "run"),
        paths.MEMORY: "swap",
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(name: str, request: int = 0) -> ControlledProgram:
            asked = {paths.MEMORY_REQUEST: str(request)} if request else {}
            program = ControlledProgram(base | {paths.CONTAINER: name} | asked, name="call_loop.py")
            stack.callback(program.end)
            return program

        yield begin


@pytest.fixture
def exclusive(serve: Callable[..., Scheduler], small_devices: dict[str, str]) -> Serving:
    """Starts a scheduler under which nobody keeps the lock beside others, so that whoever waits for nothing is idle."""
    return lambda: serve(*OPTIONS, "--policy", "exclusive", environment=small_devices)


def kept_bytes(scheduler: Scheduler, program: ControlledProgram) -> int:
    """What is kept of the request of a program's container."""
    shown = client(scheduler, program)
    return 0 if shown is None else shown.memory_kept_bytes


def has_memory(scheduler: Scheduler, program: ControlledProgram, size: int, seed: int) -> None:
    """It opens the device, and has so much there with contents of its own."""
    opens(program)
    poll_until(lambda: (found := client(scheduler, program)) and found.member_of, "its container is known", 20)
    allocates(program, "all", size, seed)


def is_right(program: ControlledProgram, size: int, seed: int) -> None:
    """Looks at all of its memory, for which it needs the lock."""
    assert program.do(f"wrong all {size} {seed}") == "0"


def sets_request(scheduler: Scheduler, size: int) -> None:
    """As nvshare-ctl does."""
    scheduler.admin.SetTerms(admin_pb2.SetTermsRequest(container="kept", memory_request_bytes=size), timeout=20)


def others_swap(scheduler: Scheduler, start: Start) -> list[ControlledProgram]:
    """Two programs that do not fit the device together."""
    others = [start(name) for name in ("b", "c")]
    for seed, program in enumerate(others, start=2):
        has_memory(scheduler, program, OTHERS, seed)
    return others


def test_it_stays_while_others_swap_around_it(exclusive: Serving, start: Start) -> None:
    """B and C take turns; nothing of what A has ever leaves, and all find what they wrote."""
    scheduler = exclusive()
    kept = start("kept", KEPT)
    has_memory(scheduler, kept, KEPT, 1)
    assert kept_bytes(scheduler, kept) == KEPT
    others = others_swap(scheduler, start)
    moved = 0
    for _ in range(2):
        for seed, program in enumerate(others, start=2):
            is_right(program, OTHERS, seed)
            assert out_bytes(scheduler, kept) == 0
            moved += sum(out_bytes(scheduler, each) > 0 for each in others)
    assert moved, "nobody had to leave: the test is too easy"
    is_right(kept, KEPT, 1)


def test_what_is_kept_can_not_be_had(scheduler: Scheduler, start: Start) -> None:
    """Another program may have what is left, and gets out of memory for more, with the reason, at once."""
    kept, other = start("kept", KEPT), start("b")
    has_memory(scheduler, kept, 2 * MIB, 1)
    opens(other)
    assert other.do(f"cuMemAlloc_v2 &much {460 * MIB - KEPT}") == OUT_OF_MEMORY
    assert f"{KEPT // MIB} MiB are reserved for kept" in other.said("out of memory on device 0")
    assert other.do(f"cuMemAlloc_v2 &less {OTHERS}") == "0"
    allocates(kept, "more", KEPT - 2 * MIB, 3)


def test_a_request_changes_and_outlives_the_scheduler(exclusive: Serving, start: Start) -> None:
    """What is set counts at once, and for the next scheduler; without it A leaves like everybody."""
    scheduler = exclusive()
    kept = start("kept")
    has_memory(scheduler, kept, KEPT, 1)
    others = others_swap(scheduler, start)
    poll_until(lambda: out_bytes(scheduler, kept) > 0, "it left for others", 20)
    sets_request(scheduler, KEPT)
    assert kept_bytes(scheduler, kept) == KEPT
    is_right(kept, KEPT, 1)
    scheduler.kill()
    scheduler = exclusive()
    poll_until(lambda: kept_bytes(scheduler, kept) == KEPT, "it is back, and what was set counts", 30)
    for seed, program in enumerate(others, start=2):
        is_right(program, OTHERS, seed)
        assert out_bytes(scheduler, kept) == 0
    sets_request(scheduler, 2 * MIB)
    is_right(others[0], OTHERS, 2)
    poll_until(lambda: out_bytes(scheduler, kept) > 0, "it leaves for others again", 20)


def test_the_later_one_gets_what_is_left(scheduler: Scheduler, start: Start) -> None:
    """The status says how much of a request is kept, and one line of the log that it is not all."""
    first, second = start("kept", 256 * MIB), start("late", 256 * MIB)
    for program in (first, second):
        opens(program)
        poll_until(lambda program=program: kept_bytes(scheduler, program) > 0, "it is known", 20)  # type: ignore[misc]
    assert kept_bytes(scheduler, first) == 256 * MIB
    assert 0 < kept_bytes(scheduler, second) < 256 * MIB
    allocates(first, "all", 200 * MIB, 1)
    allocates(second, "all", 100 * MIB, 2)
    [line] = scheduler.logged("a memory request is not kept in full: the device has no more for it")
    assert (line["container"], line["requested_bytes"]) == (f"late@{os.getuid()}", 256 * MIB)


def test_more_than_the_device_has(serve: Callable[..., Scheduler]) -> None:
    """The log says that it is not kept in full, and does not blame others: there are none."""
    scheduler = serve(*OPTIONS)
    scheduler.client().register().send(wire.Terms(memory_request_bytes=100 * GIB, container="alone"))
    [line] = scheduler.logged("a memory request is not kept in full: the device has no more for it")
    assert line["kept_bytes"] < line["requested_bytes"] == 100 * GIB


def test_requests_that_come_and_go_do_not_fill_the_log(serve: Callable[..., Scheduler]) -> None:
    """A process comes and goes with requests that can't be kept in full: some lines, not one for each."""
    scheduler = serve(*OPTIONS)
    scheduler.client().register(footprint_bytes=15 * GIB)
    for more in range(1, 201):
        asks = scheduler.client().register()
        asks.send(wire.Terms(memory_request_bytes=14 * GIB, container=f"asks-{more}"))
        asks.lock()
        asks.close()
    poll_until(lambda: len(scheduler.states()) == 1, "all have left")
    assert len(scheduler.logged("a memory request is not kept in full: the device has no more for it")) < 60
    assert len(scheduler.log()) < 200

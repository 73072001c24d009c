"""Memory that swaps, against a scheduler that the test plays: allotments, and what the mover does of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.lock_server import TIMEOUT
from tests.shim.memory_peer import CHUNK, MemoryPeer, memory_file

Start = Callable[..., ControlledProgram]


@pytest.fixture
def scheduler(run_dir: paths.RunDir) -> Iterator[FakeScheduler]:
    """Listens where the program looks."""
    with FakeScheduler(run_dir.client_socket) as fake:
        yield fake


@pytest.fixture
def start(environment: dict[str, str], libraries: Libraries) -> Iterator[Start]:
    """Starts programs on a simulated device whose memory swaps."""
    started: list[ControlledProgram] = []

    def begin(**variables: str) -> ControlledProgram:
        own = {"LD_PRELOAD": str(libraries.shim), paths.MEMORY: "swap"}
        program = ControlledProgram(environment | own | variables, name="swap_loop.py")
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


def reach_registered(program: ControlledProgram, scheduler: FakeScheduler, arena: int = 4 * CHUNK) -> MemoryPeer:
    """Has a context, for which room was given, and an arena."""
    program.begin("use")
    peer = MemoryPeer(scheduler.register())
    assert peer.peer.register.swaps
    grow = peer.grow()
    assert (grow.footprint_bytes, grow.fixed_bytes) == (0, 0)
    assert program.answer() == "0"
    if arena:
        peer.arena(arena)
        peer.heard(arena_bytes=arena, usable_bytes=arena)
    return peer


def reach_allocated(program: ControlledProgram, peer: MemoryPeer, name: str, size: int) -> None:
    """The program has more memory, of which it has heard."""
    program.begin(f"alloc {name} {size}")
    grow = peer.grow()
    assert program.answer() == "0"
    peer.heard(footprint_bytes=grow.footprint_bytes)


def reach_written(program: ControlledProgram, peer: MemoryPeer, name: str, size: int) -> None:
    """Its memory has contents, and the lock is given back."""
    reach_allocated(program, peer, name, size)
    program.begin(f"write {name} {name}")
    peer.grant()
    assert program.answer() == "0"
    peer.take_back()


def test_out_and_back(start: Start, scheduler: FakeScheduler) -> None:
    """What was allocated is brought out and comes back, at the same address and with the same contents."""
    program = start()
    peer = reach_registered(program, scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    address = program.do("address x")
    peer.evict(CHUNK)
    peer.heard(resident_bytes=CHUNK, out_bytes=2 * CHUNK, order=peer.order)
    peer.evict(0)
    peer.heard(resident_bytes=0, out_bytes=3 * CHUNK, order=peer.order)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    peer.heard(resident_bytes=3 * CHUNK, out_bytes=0)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"
    assert program.do("address x") == address
    assert program.errors == []


def test_a_holder_keeps_its_memory_until_it_has_drained(start: Start, scheduler: FakeScheduler) -> None:
    """What runs may use it: it leaves when the lock is given back."""
    program = start()
    peer = reach_registered(program, scheduler)
    reach_allocated(program, peer, "x", 2 * CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    peer.evict(0)
    assert program.do("check x x") == "right"
    peer.take_back()
    peer.heard(resident_bytes=0, order=peer.order)


def test_memory_allocated_behind_a_closed_gate(start: Start, scheduler: FakeScheduler) -> None:
    """It needs no room on the device before its turn; the gate opens when it is there."""
    program = start()
    peer = reach_registered(program, scheduler)
    peer.tell(0, 2 * CHUNK)
    assert program.do(f"alloc x {2 * CHUNK}") == "0"
    peer.heard(footprint_bytes=2 * CHUNK, resident_bytes=0)
    program.begin("write x x")
    peer.grant()
    peer.grow()
    assert program.answer() == "0"
    assert program.do("check x x") == "right"


def test_the_lock_is_asked_back_before_everything_is_in(start: Start, scheduler: FakeScheduler) -> None:
    """It is given back at once: nothing has passed the gate."""
    program = start()
    peer = reach_registered(program, scheduler)
    peer.tell(0, 2 * CHUNK)
    assert program.do(f"alloc x {2 * CHUNK}") == "0"
    program.begin("write x x")
    peer.grant()
    grow = peer.expect(wire.Grow)
    peer.take_back()
    assert not program.answered()
    peer.allot(2 * CHUNK, 4 * CHUNK, grow.request)
    peer.grant()
    assert program.answer() == "0"


def test_a_holder_that_waits_for_its_memory_is_not_idle(start: Start, scheduler: FakeScheduler) -> None:
    """Although it submits nothing while others wait, it keeps the lock until it has used it."""
    program = start()
    peer = reach_registered(program, scheduler)
    peer.tell(0, 2 * CHUNK)
    assert program.do(f"alloc x {CHUNK}") == "0"
    program.begin("write x x")
    peer.grant()
    grow = peer.expect(wire.Grow)
    peer.peer.send(wire.Waiters(1, 1000))
    program.client_waits(peer.peer)
    peer.allot(CHUNK, 4 * CHUNK, grow.request)
    assert program.answer() == "0"
    assert peer.expect(wire.LockReleased).grant == 1


def test_growth_is_refused(start: Start, scheduler: FakeScheduler) -> None:
    """The call fails as if the device were full, one line says why, and the program goes on."""
    program = start()
    peer = reach_registered(program, scheduler)
    reach_allocated(program, peer, "x", CHUNK)
    for _ in range(2):
        program.begin(f"alloc y {8 * CHUNK}")
        grow = peer.expect(wire.Grow)
        assert grow.footprint_bytes == 9 * CHUNK
        peer.peer.send(wire.RefuseGrowth(grow.request, "host memory is full"))
        assert program.answer() == "2"
    assert "requested" in program.said("host memory is full")
    reach_allocated(program, peer, "z", CHUNK)
    assert len([line for line in program.errors if "out of memory" in line]) == 1


def test_without_a_scheduler_nothing_is_limited(start: Start, scheduler: FakeScheduler) -> None:
    """A program whose scheduler has died allocates what the driver gives; the next one hears how it is."""
    program = start()
    peer = reach_registered(program, scheduler)
    reach_allocated(program, peer, "x", CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    scheduler.die()
    program.said("lost the scheduler")
    assert program.do(f"alloc y {2 * CHUNK}") == "0"
    assert program.do("write y y") == "0"
    scheduler.listen()
    peer = MemoryPeer(scheduler.register(epoch=2))
    assert (peer.peer.register.state, peer.peer.register.footprint_bytes) == (wire.State.HOLDING, 3 * CHUNK)
    peer.heard(order=0, footprint_bytes=3 * CHUNK, resident_bytes=3 * CHUNK, arena_bytes=4 * CHUNK)
    assert program.do("check y y") == "right"


def test_a_scheduler_that_knows_nothing_of_it(start: Start, scheduler: FakeScheduler) -> None:
    """Takes the client for one whose memory stays, and hears its footprint."""
    program = start()
    program.begin("use")
    peer = scheduler.accept()
    assert (peer.register.backend, peer.register.swaps) == (wire.Backend.NATIVE, True)
    peer.send(wire.SchedOn(client_id=1, epoch=1, level=1))
    assert program.answer() == "0"
    assert program.do(f"alloc x {CHUNK}") == "0"
    program.begin("write x x")
    peer.expect_wanting()
    peer.grant()
    assert program.answer() == "0"
    peer.send(wire.Evict(1, 0))
    assert hung_up(peer)


@pytest.mark.parametrize("back", [False, True])
def test_the_scheduler_dies_in_the_middle_of_a_transfer(start: Start, scheduler: FakeScheduler, back: bool) -> None:
    """The transfer goes on, the next scheduler hears how it is, and nothing is lost."""
    program = start()
    peer = reach_registered(program, scheduler, arena=6 * CHUNK)
    reach_written(program, peer, "x", 6 * CHUNK)
    peer.evict(0)
    while not peer.resident.resident_bytes < 6 * CHUNK:
        peer.heard()
    if back:
        peer.heard(resident_bytes=0)
        peer.allot(6 * CHUNK, 6 * CHUNK)
        while not peer.resident.resident_bytes:
            peer.heard()
    scheduler.die()
    scheduler.listen()
    peer = MemoryPeer(scheduler.register(epoch=2))
    peer.heard(order=0, resident_bytes=6 * CHUNK if back else 0)
    peer.allot(6 * CHUNK, 6 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_orders_change_while_they_are_obeyed(start: Start, scheduler: FakeScheduler) -> None:
    """An allotment comes while memory leaves, an eviction while it comes: the newest counts, nothing is lost."""
    program = start()
    peer = reach_registered(program, scheduler, arena=8 * CHUNK)
    reach_written(program, peer, "x", 8 * CHUNK)
    for _ in range(10):
        peer.evict(0)
        peer.heard(order=peer.order)
        peer.allot(8 * CHUNK, 8 * CHUNK)
        peer.heard(order=peer.order)
        peer.evict(3 * CHUNK)
        peer.heard(order=peer.order)
        peer.allot(8 * CHUNK, 8 * CHUNK)
        peer.heard(order=peer.order)
    peer.heard(resident_bytes=8 * CHUNK) if peer.resident.resident_bytes < 8 * CHUNK else None
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_no_host_memory(start: Start, scheduler: FakeScheduler) -> None:
    """What has no place to go stays, whatever the scheduler says; it goes when there is one."""
    program = start()
    peer = reach_registered(program, scheduler, arena=0)
    reach_written(program, peer, "x", 3 * CHUNK)
    peer.evict(0)
    peer.heard(order=peer.order, resident_bytes=3 * CHUNK)
    peer.arena(CHUNK)
    peer.heard(resident_bytes=2 * CHUNK)
    peer.arena(2 * CHUNK)
    peer.heard(resident_bytes=0)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_memory_never_written_needs_no_host_memory(start: Start, scheduler: FakeScheduler) -> None:
    """It leaves without a copy, and comes back."""
    program = start()
    peer = reach_registered(program, scheduler, arena=0)
    reach_allocated(program, peer, "x", 3 * CHUNK)
    peer.out_and_back(3 * CHUNK)


def test_what_was_not_changed_leaves_without_another_copy(start: Start, scheduler: FakeScheduler) -> None:
    """Its host copy is still right; and two allocations may use the same host memory one after the other."""
    program = start()
    peer = reach_registered(program, scheduler, arena=2 * CHUNK)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


@pytest.mark.parametrize("wrong", ["no descriptor", "another size", "a pipe", "two", "with another frame", "nothing"])
def test_wrong_host_memory(start: Start, scheduler: FakeScheduler, wrong: str) -> None:
    """A scheduler that sends what it must not is left; the client comes back, and keeps no descriptor."""
    program = start()
    peer = reach_registered(program, scheduler)
    before = sorted(program.descriptors())
    data, file = wire.encode(wire.Arena(CHUNK)), memory_file(CHUNK)
    reading, writing = os.pipe()
    match wrong:
        case "no descriptor":
            peer.send_with(data)
        case "another size":
            peer.send_with(wire.encode(wire.Arena(2 * CHUNK)), file)
        case "a pipe":
            peer.send_with(data, reading)
        case "two":
            peer.send_with(data, file, file)
        case "with another frame":
            peer.send_with(wire.encode(wire.Allot(100, CHUNK, CHUNK, CHUNK)), file)
        case _:
            peer.send_with(wire.encode(wire.Arena(0)), file)
    for descriptor in (file, reading, writing):
        os.close(descriptor)
    assert hung_up(peer.peer)
    again = MemoryPeer(scheduler.register(epoch=2))
    again.heard(arena_bytes=4 * CHUNK)
    assert sorted(program.descriptors()) == before


def test_no_memory_when_it_comes_back(start: Start, scheduler: FakeScheduler) -> None:
    """Another program has taken it, unasked: the scheduler is told what is lacking, and nothing is lost."""
    program = start(**{paths.SIMGPU_DEVICES: "1x4GiB"})
    peer = reach_registered(program, scheduler)
    reach_written(program, peer, "x", 4 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0)
    hog = start(LD_PRELOAD="")
    assert hog.do("use") == "0"
    size = 4 << 30
    while hog.do(f"alloc hog{size} {size}") == "0" or size > CHUNK // 2:
        size -= CHUNK // 2
    peer.allot(4 * CHUNK, 4 * CHUNK)
    while not peer.resident.lacking_bytes:
        peer.heard()
    hog.end()
    peer.heard(resident_bytes=4 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_fork_while_it_is_out(start: Start, scheduler: FakeScheduler) -> None:
    """The child has nothing of it, and the parent loses nothing."""
    program = start()
    peer = reach_registered(program, scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    peer.evict(CHUNK)
    peer.heard(resident_bytes=CHUNK)
    child = int(program.do("fork"))
    try:
        maps = Path(f"/proc/{child}/maps").read_text(encoding="utf-8")
        assert "memfd:arena" not in maps
        assert "memfd:arena" in Path(f"/proc/{program.pid}/maps").read_text(encoding="utf-8")
    finally:
        os.kill(child, signal.SIGKILL)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    peer.heard(resident_bytes=3 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_freed_while_it_is_out(start: Start, scheduler: FakeScheduler) -> None:
    """Its host memory is another's then."""
    program = start()
    peer = reach_registered(program, scheduler, arena=2 * CHUNK)
    for name in ("x", "y", "z"):
        peer.tell(2 * CHUNK, 2 * CHUNK)
        assert program.do(f"alloc {name} {2 * CHUNK}") == "0"
        program.begin(f"write {name} {name}")
        peer.grant()
        assert program.answer() == "0"
        peer.take_back()
        peer.evict(0)
        peer.heard(resident_bytes=0, footprint_bytes=2 * CHUNK)
        assert program.do(f"free {name}") == "0"
        peer.heard(footprint_bytes=0)


def test_the_program_ends_in_the_middle_of_a_transfer(start: Start, scheduler: FakeScheduler) -> None:
    """It ends, as it would without the library."""
    program = start()
    peer = reach_registered(program, scheduler, arena=6 * CHUNK)
    reach_written(program, peer, "x", 6 * CHUNK)
    peer.evict(0)
    peer.heard(order=peer.order)
    program.begin("stop")
    assert program.process.wait(TIMEOUT) == 0


def test_a_context_ends_while_its_memory_is_out(start: Start, scheduler: FakeScheduler) -> None:
    """With its memory; the next context's moves as well."""
    program = start()
    peer = reach_registered(program, scheduler)
    for _ in range(3):
        peer.tell(2 * CHUNK, 2 * CHUNK)
        assert program.do(f"alloc x {2 * CHUNK}") == "0"
        program.begin("write x x")
        peer.grant()
        assert program.answer() == "0"
        peer.take_back()
        peer.out_and_back(2 * CHUNK)
        program.begin("check x x")
        peer.grant()
        assert program.answer() == "right"
        peer.take_back()
        peer.evict(CHUNK)
        peer.heard(resident_bytes=CHUNK)
        assert program.do("release") == "0"
        peer.heard(footprint_bytes=0, resident_bytes=0)
        assert program.do("use") == "0"


def test_two_devices(start: Start, scheduler: FakeScheduler) -> None:
    """Each has its own allotments, arena and mover."""
    program = start(**{paths.SIMGPU_DEVICES: "2x4GiB"})
    first = reach_registered(program, scheduler)
    reach_written(program, first, "x", 2 * CHUNK)
    program.begin("use 1")
    second = MemoryPeer(scheduler.register())
    second.grow()
    assert program.answer() == "0"
    second.arena(4 * CHUNK)
    reach_written(program, second, "y", 2 * CHUNK)
    first.evict(0)
    second.evict(0)
    first.heard(resident_bytes=0)
    second.heard(resident_bytes=0)
    second.allot(2 * CHUNK, 2 * CHUNK)
    second.heard(resident_bytes=2 * CHUNK)
    program.begin("check y y")
    second.grant()
    assert program.answer() == "right"
    assert program.do("use 0") == "0"
    program.begin("check x x")
    first.expect(wire.ReqLock)
    first.allot(2 * CHUNK, 2 * CHUNK)
    first.heard(resident_bytes=2 * CHUNK)
    first.peer.grant()
    assert program.answer() == "right"


def test_a_capture_that_goes_on_keeps_the_memory(start: Start, scheduler: FakeScheduler) -> None:
    """It ends before the lock is given back; its graph finds the memory where it was."""
    program = start()
    peer = reach_registered(program, scheduler)
    reach_allocated(program, peer, "x", 2 * CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    assert program.do("capture x 7") == "0"
    peer.evict(0)
    peer.peer.revoke()
    assert program.do("end_capture") == "0"
    assert peer.expect(wire.LockReleased).grant == 1
    peer.heard(resident_bytes=0)
    peer.allot(2 * CHUNK, 2 * CHUNK)
    peer.heard(resident_bytes=2 * CHUNK)
    program.begin("replay x 7")
    peer.grant()
    assert program.answer() == "right"


def test_a_signal_ends_the_wait_for_memory(start: Start, scheduler: FakeScheduler) -> None:
    """A Python program that waits for room can be interrupted."""
    program = start()
    peer = reach_registered(program, scheduler)
    program.begin(f"alloc x {CHUNK}")
    peer.expect(wire.Grow)
    program.waits()
    program.process.send_signal(signal.SIGINT)
    program.said("KeyboardInterrupt")
    assert program.process.wait(TIMEOUT)

"""Memory that swaps, and what can fail meanwhile (the driver: test_swap_driver_failures.py): nothing is lost."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.lock_server import TIMEOUT
from tests.shim.memory_peer import CHUNK, MemoryPeer, memory_file
from tests.shim.swapping import Start, reach_allocated, reach_registered, reach_written
from tests.shim.thread_state import client_waits

pytestmark = pytest.mark.soak


def test_growth_is_refused(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """The call fails as if the device were full, one line says why, and the program goes on."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
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


def test_the_reason_is_said_before_the_call_fails(
    environment: dict[str, str], libraries: Libraries, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """A program that ends because of it has said why: while its stderr is full, the call does not return."""
    path = tmp_path / "stderr"
    os.mkfifo(path)
    stderr = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    into = ("sh", "-c", 'exec "$@" 2>"$0"', str(path))
    swaps = {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}
    program = ControlledProgram(environment | swaps, into, "swap_loop.py")
    try:
        peer = reach_registered(program, fake_scheduler)
        with suppress(BlockingIOError):
            while True:
                os.write(stderr, b"." * select.PIPE_BUF)
        program.begin(f"alloc x {8 * CHUNK}")
        peer.peer.send(wire.RefuseGrowth(peer.expect(wire.Grow).request, "host memory is full"))
        client_waits(peer.peer, program.pid)
        program.waits()
        said = b""
        while b"host memory is full" not in said:
            assert select.select([stderr], [], [], TIMEOUT)[0]
            said += os.read(stderr, select.PIPE_BUF)
        assert program.answer() == "2"
    finally:
        program.end()
        os.close(stderr)


def test_more_than_the_device_has_is_not_asked_for(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """No scheduler takes such a number from a client; the call fails at once, and one line says why."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    huge = 1 << 51
    assert program.do(f"alloc x {huge}") == "2"
    for function in ("cuMemAllocAsync", "cuMemAllocManaged", "cuMemCreate"):
        assert program.do(f"alloc_by {function} {huge}") == "2"
    assert f"requested {huge} bytes: more than the device has" in program.said("out of memory")
    reach_allocated(program, peer, "z", CHUNK)
    assert len([line for line in program.errors if "out of memory" in line]) == 1


def test_without_a_scheduler_nothing_is_limited(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """A program whose scheduler has died allocates what the driver gives; the next one hears how it is."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_allocated(program, peer, "x", CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    fake_scheduler.die()
    program.said("lost the scheduler")
    assert program.do(f"alloc y {2 * CHUNK}") == "0"
    assert program.do("write y y") == "0"
    fake_scheduler.listen()
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    assert (peer.peer.register.state, peer.peer.register.footprint_bytes) == (wire.State.HOLDING, 3 * CHUNK)
    peer.heard(order=0, footprint_bytes=3 * CHUNK, resident_bytes=3 * CHUNK, arena_bytes=4 * CHUNK)
    assert program.do("check y y") == "right"


def test_a_scheduler_that_knows_nothing_of_it(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Takes the client for one whose memory stays, and hears its footprint."""
    program = start_swapping()
    program.begin("use")
    peer = fake_scheduler.accept()
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
def test_the_scheduler_dies_in_the_middle_of_a_transfer(
    start_swapping: Start, fake_scheduler: FakeScheduler, back: bool
) -> None:
    """The transfer goes on, the next scheduler hears how it is, and nothing is lost."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=6 * CHUNK)
    reach_written(program, peer, "x", 6 * CHUNK)
    peer.evict(0)
    while not peer.resident.resident_bytes < 6 * CHUNK:
        peer.heard()
    if back:
        peer.heard(resident_bytes=0)
        peer.allot(6 * CHUNK, 6 * CHUNK)
        while not peer.resident.resident_bytes:
            peer.heard()
    fake_scheduler.die()
    fake_scheduler.listen()
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    peer.heard(order=0, resident_bytes=6 * CHUNK if back else 0)
    peer.allot(6 * CHUNK, 6 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_no_host_memory(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """What has no place to go stays, whatever the scheduler says; it goes when there is one."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=0)
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


def test_memory_never_written_needs_no_host_memory(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It leaves without a copy, and comes back."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_allocated(program, peer, "x", 3 * CHUNK)
    peer.out_and_back(3 * CHUNK)


@pytest.mark.parametrize("wrong", ["no descriptor", "another size", "a pipe", "two", "with another frame", "nothing"])
def test_wrong_host_memory(start_swapping: Start, fake_scheduler: FakeScheduler, wrong: str) -> None:
    """A scheduler that sends what it must not is left; the client comes back, and keeps no descriptor."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
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
    again = MemoryPeer(fake_scheduler.register(epoch=2))
    again.heard(arena_bytes=4 * CHUNK)
    assert sorted(program.descriptors()) == before


def test_no_descriptor_is_left(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """What host memory comes with has a number all the same, again and again, on one connection."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_written(program, peer, "x", 2 * CHUNK)
    assert program.do("use_all_files 300") == "None"
    for arena in (CHUNK, 2 * CHUNK):
        peer.arena(CHUNK)
        peer.heard(arena_bytes=arena, usable_bytes=arena)
    peer.out_and_back(2 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_no_memory_when_it_comes_back(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Another program has taken it, unasked: the scheduler is told what is lacking, and nothing is lost."""
    program = start_swapping(**{paths.SIMGPU_DEVICES: "1x4GiB"})
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 4 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0)
    hog = start_swapping(LD_PRELOAD="")
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


@pytest.mark.parametrize("holds", [False, True])
def test_it_is_not_tried_without_a_pause(start_swapping: Start, fake_scheduler: FakeScheduler, *, holds: bool) -> None:
    """As long as the driver has no memory: each time the mover waits for longer, and says it as often.

    A machine that is slow makes the time longer only.
    """
    program = start_swapping(**{paths.SIMGPU_DEVICES: "1x1GiB"})
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 4 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0)
    hog = start_swapping(LD_PRELOAD="")
    assert hog.do("use") == "0"
    size = 1 << 30
    while hog.do(f"alloc hog{size} {size}") == "0" or size > CHUNK // 2:
        size -= CHUNK // 2
    peer.allot(4 * CHUNK, 4 * CHUNK)
    if holds:
        program.begin("check x x")
        peer.grant()
    begun = time.monotonic()
    lacking: list[int] = []
    while len(lacking) < 12:
        lacking += [said] if (said := peer.heard().lacking_bytes) else []
    assert time.monotonic() - begun > 1
    assert set(lacking) == {CHUNK}
    hog.end()
    peer.heard(resident_bytes=4 * CHUNK)
    assert not holds or program.answer() == "right"


def test_host_memory_is_registered_though_nothing_comes_in(
    start_swapping: Start, fake_scheduler: FakeScheduler
) -> None:
    """What may come in is less than any chunk: others wait for what can leave into the new segment."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0, order=peer.order)
    peer.allot(CHUNK // 2, 2 * CHUNK)
    peer.arena(2 * CHUNK)
    peer.heard(arena_bytes=4 * CHUNK, usable_bytes=4 * CHUNK)
    peer.allot(2 * CHUNK, 2 * CHUNK)
    peer.heard(resident_bytes=2 * CHUNK)


def test_fork_while_it_is_out(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """The child has nothing of it, and the parent loses nothing."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
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


def test_the_program_ends_in_the_middle_of_a_transfer(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It ends, as it would without the library."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=6 * CHUNK)
    reach_written(program, peer, "x", 6 * CHUNK)
    peer.evict(0)
    peer.heard(order=peer.order)
    program.begin("stop")
    assert program.process.wait(TIMEOUT) == 0


def test_a_context_ends_while_its_memory_is_out(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """With its memory; the next context's moves as well."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
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


def test_no_room_for_a_context(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It is refused before the driver is asked, with one line that says why."""
    program = start_swapping()
    program.begin("use")
    peer = MemoryPeer(fake_scheduler.register())
    grow = peer.expect(wire.Grow)
    peer.peer.send(wire.RefuseGrowth(grow.request, "the device is full of contexts"))
    assert program.answer() == "2"
    program.said("no room for a context on device 0: the device is full of contexts")

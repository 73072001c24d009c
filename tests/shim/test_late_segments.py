"""Host memory that can't be mapped when it comes: it is not lost, and is used as soon as it can be mapped."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.closing import FIRST
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.storing import ask_to_store, bring_out, empty_file, fall_asleep, has_right_contents, load, store, wake
from tests.shim.swapping import Start, reach_registered, reach_written

pytestmark = pytest.mark.soak

NOTICE = wire.Notice("memory can't leave the GPU until more host memory can be mapped (ulimit -v, vm.max_map_count)")


@pytest.fixture
def program(start_swapping: Start) -> ControlledProgram:
    """Has one simulated device."""
    return start_swapping()


@contextlib.contextmanager
def cramped(program: ControlledProgram) -> Iterator[None]:
    """For so long it has addresses for small things only."""
    pages = int(Path(f"/proc/{program.pid}/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + CHUNK // 2
    before = resource.prlimit(program.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(program.pid, resource.RLIMIT_AS, before)


def given_in_vain(peer: MemoryPeer, *sizes: int) -> None:
    """Host memory that can't be mapped; the first time in a program's life, which it says once."""
    for size in sizes:
        peer.arena(size)
    assert peer.expect(wire.Notice) == NOTICE


def open_segments(pid: int) -> list[str]:
    """The host memory that the process has by descriptors."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += [link for link in [str(entry.readlink())] if "memfd:arena" in link]
    return found


def moves(program: ControlledProgram, peer: MemoryPeer, size: int) -> None:
    """All leaves, comes back, and is right."""
    peer.out_and_back(size)
    has_right_contents(program, peer, "x")


def test_it_is_mapped_when_that_works(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Until then it counts as given, and not as usable; then memory leaves into it, and no descriptor is left."""
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_written(program, peer, "x", 2 * CHUNK)
    before = sorted(program.descriptors())
    with cramped(program):
        given_in_vain(peer, CHUNK, CHUNK)
        peer.evict(0)
        peer.heard(order=peer.order, resident_bytes=2 * CHUNK, arena_bytes=2 * CHUNK, usable_bytes=0)
    peer.heard(resident_bytes=0, usable_bytes=2 * CHUNK)
    peer.allot(2 * CHUNK, 2 * CHUNK)
    peer.heard(resident_bytes=2 * CHUNK)
    has_right_contents(program, peer, "x")
    assert sorted(program.descriptors()) == before


def test_what_can_be_mapped_does_not_wait_for_it(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Smaller segments are there for memory meanwhile."""
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_written(program, peer, "x", CHUNK)
    with cramped(program):
        given_in_vain(peer, 4 * CHUNK)
        for small in (CHUNK // 8, CHUNK // 4):
            peer.arena(CHUNK // 8)
            peer.heard(arena_bytes=4 * CHUNK + small, usable_bytes=small)
    peer.heard(usable_bytes=4 * CHUNK + CHUNK // 4)
    moves(program, peer, CHUNK)


def test_a_forked_child_keeps_none(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """The memory is the parent's, which maps it all the same."""
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_written(program, peer, "x", CHUNK)
    with cramped(program):
        given_in_vain(peer, CHUNK)
        assert open_segments(program.pid)
        child = int(program.do("fork"))
        try:
            poll_until(lambda: not open_segments(child), "the child has closed it")
        finally:
            os.kill(child, signal.SIGKILL)
    moves(program, peer, CHUNK)


def test_the_next_scheduler_counts_it(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """It is taken by this program, whoever gave it."""
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_written(program, peer, "x", CHUNK)
    with cramped(program):
        given_in_vain(peer, CHUNK)
        fake_scheduler.die()
        fake_scheduler.listen()
        peer = MemoryPeer(fake_scheduler.register(epoch=2))
        assert peer.expect(wire.Notice) == NOTICE
        peer.tell(CHUNK, CHUNK)
        assert (peer.resident.arena_bytes, peer.resident.usable_bytes) == (CHUNK, 0)
    moves(program, peer, CHUNK)


def test_the_program_closes_it(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """With the connection: the next scheduler hears that it has none, and gives it some."""
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_written(program, peer, "x", CHUNK)
    with cramped(program):
        given_in_vain(peer, CHUNK)
        program.do(f"close_all {FIRST}")
        with contextlib.suppress(BrokenPipeError):
            peer.evict(CHUNK)
        assert hung_up(peer.peer)
        peer = MemoryPeer(fake_scheduler.register(epoch=2))
        assert peer.expect(wire.Notice) == NOTICE
        peer.allot(CHUNK, CHUNK)
        peer.heard(order=peer.order, arena_bytes=0)
    peer.arena(CHUNK)
    peer.heard(arena_bytes=CHUNK, usable_bytes=CHUNK)
    moves(program, peer, CHUNK)


def test_no_descriptor_is_left_for_it(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """The next one could not come: who registers anew is given it again."""
    peer = reach_registered(program, fake_scheduler, arena=0)
    reach_written(program, peer, "x", CHUNK)
    assert program.do("use_all_files 300") == "None"
    with cramped(program):
        peer.arena(CHUNK)
        assert hung_up(peer.peer)
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    peer.arena(CHUNK)
    peer.heard(arena_bytes=CHUNK, usable_bytes=CHUNK)
    moves(program, peer, CHUNK)


def test_who_sleeps_without_it(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """Nothing goes into a file then, which would be asked for all of it; it does when it is mapped."""
    peer = reach_registered(program, fake_scheduler, arena=CHUNK)
    reach_written(program, peer, "x", CHUNK)
    bring_out(peer)
    with cramped(program):
        given_in_vain(peer, CHUNK)
        fall_asleep(peer.peer)
        ask_to_store(peer, empty_file(tmp_path))
        assert "not all of it can be mapped" in peer.expect(wire.NotStored).text
    wake(peer, CHUNK)
    while peer.resident.usable_bytes < 2 * CHUNK:
        peer.heard()
    has_right_contents(program, peer, "x")
    bring_out(peer)
    fall_asleep(peer.peer)
    os.close(store(peer, tmp_path))
    load(peer, 2 * CHUNK)
    wake(peer, CHUNK)
    has_right_contents(program, peer, "x")
    poll_until(lambda: not open_segments(program.pid), "no descriptor is left")

"""Blocks of a sleeping program's host memory are kept once in a pack, and come back, as the test's scheduler says."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import catalogue, wire
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, GRANULE, MemoryPeer
from tests.shim.packing import (
    BLOCKS,
    allocated_bytes,
    away,
    dedup,
    has_open,
    maps_pack,
    name_blocks,
    new_pack,
    packed,
    put_away,
    reach_asleep_with,
    seal,
    sum_up,
    write_pack,
)
from tests.shim.storing import (
    ARENA_BYTES,
    X_BYTES,
    bring_out,
    fall_asleep,
    has_right_contents,
    load,
    reach_asleep,
    store,
    wake,
)
from tests.shim.swapping import Start, reach_allocated, reach_registered, reach_written

NONE = catalogue.NO_BLOCK


@pytest.fixture
def program(start_swapping: Start) -> ControlledProgram:
    """Has one simulated device."""
    return start_swapping()


def test_away_and_back(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Its memory is free while a pack has it, and nothing of that is left when it is back."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    assert allocated_bytes(memory) == X_BYTES
    pack = put_away(peer)
    assert allocated_bytes(memory) == 0
    assert maps_pack(program.pid)
    assert not has_open(program.pid, "catalogue")
    assert not has_open(program.pid, "pack")
    load(peer, X_BYTES)
    poll_until(lambda: not maps_pack(program.pid), "the pack is let go of")
    assert os.fstat(pack).st_size == X_BYTES
    wake(peer)
    assert peer.resident.arena_bytes == peer.resident.usable_bytes == ARENA_BYTES
    has_right_contents(program, peer, "x")
    assert program.errors == []


def test_the_sums_are_those_of_the_contents(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Equal blocks have equal ones, wherever they are, and others have others; summing up changes nothing."""
    peer = reach_registered(program, fake_scheduler, ARENA_BYTES)
    for name, seed in {"x": "one", "y": "other", "z": "one"}.items():
        reach_written(program, peer, name, 3 * GRANULE, seed)
    bring_out(peer)
    fall_asleep(peer.peer)
    for _ in range(2):
        _, sums = sum_up(peer)
        assert len(sums) == 9
        assert len(set(sums)) == 6
    wake(peer, 9 * GRANULE)
    program.begin("check z one")
    peer.grant()
    assert program.answer() == "right"


def test_nothing_to_sum_up(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """What was never written has no blocks."""
    peer = reach_registered(program, fake_scheduler, ARENA_BYTES)
    reach_allocated(program, peer, "x", X_BYTES)
    bring_out(peer)
    fall_asleep(peer.peer)
    assert sum_up(peer)[1] == []
    wake(peer)


@pytest.mark.parametrize("place", [0, GRANULE // 2, GRANULE - 1])
def test_a_block_that_differs(program: ControlledProgram, fake_scheduler: FakeScheduler, place: int) -> None:
    """In one byte: it stays in memory, whatever the sum said."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    file, sums = sum_up(peer)
    name_blocks(file, sums)
    pack = new_pack()
    write_pack(peer, pack)
    (value,) = os.pread(pack, 1, 5 * GRANULE + place)
    os.pwrite(pack, bytes([value ^ 1]), 5 * GRANULE + place)
    seal(pack)
    assert dedup(peer, pack) == away(pack, X_BYTES - GRANULE)
    assert allocated_bytes(memory) == GRANULE
    load(peer, X_BYTES - GRANULE)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_no_block_is_equal(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Nothing is let go of, and the same catalogue serves for another pack."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    pack, file, sums = packed(peer)
    name_blocks(file, sums, [*range(1, BLOCKS), 0])
    assert dedup(peer, pack) == wire.Deduped(text="no block of it is equal")
    assert allocated_bytes(memory) == X_BYTES
    assert not maps_pack(program.pid)
    name_blocks(file, sums)
    assert dedup(peer, pack) == away(pack)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")


@pytest.mark.parametrize("size", [1, 3, BLOCKS // 2])
def test_some_of_them(program: ControlledProgram, fake_scheduler: FakeScheduler, size: int) -> None:
    """Every second block is away, and memory for it comes in pieces of so many of them."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    file, sums = sum_up(peer)
    blocks = [index // 2 if index % 2 else NONE for index in range(BLOCKS)]
    name_blocks(file, sums, blocks)
    pack = new_pack(BLOCKS // 2)
    write_pack(peer, pack)
    seal(pack)
    assert dedup(peer, pack) == away(pack, X_BYTES // 2)
    assert allocated_bytes(memory) == X_BYTES // 2
    left = iter(range(BLOCKS // 2))
    load(peer, *[len(part) * GRANULE for part in iter(lambda: list(islice(left, size)), [])])
    wake(peer)
    has_right_contents(program, peer, "x")
    bring_out(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_its_own_duplicates(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """One block is there for all that are equal, and comes back to each of them."""
    peer = reach_registered(program, fake_scheduler, ARENA_BYTES)
    reach_written(program, peer, "x", CHUNK)
    reach_written(program, peer, "y", CHUNK, "x")
    bring_out(peer)
    fall_asleep(peer.peer)
    file, sums = sum_up(peer)
    first = {found: index for index, found in reversed(list(enumerate(sums)))}
    numbers = {found: number for number, found in enumerate(first)}
    assert len(numbers) == CHUNK // GRANULE
    name_blocks(file, sums, [numbers[found] for found in sums])
    pack = new_pack(len(numbers))
    write_pack(peer, pack)
    seal(pack)
    assert dedup(peer, pack) == away(pack, 2 * CHUNK)
    load(peer, 2 * CHUNK)
    wake(peer, 2 * CHUNK)
    program.begin("check y x")
    peer.grant()
    assert program.answer() == "right"
    peer.take_back()
    has_right_contents(program, peer, "x")


def test_one_pack_for_several(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Others find their blocks in the first one's pack, which lives as long as somebody needs it."""
    programs = [start_swapping() for _ in range(3)]
    peers = [reach_asleep_with(program, fake_scheduler)[0] for program in programs]
    pack, _, known = packed(peers[0])
    for peer in peers:
        file, sums = sum_up(peer)
        name_blocks(file, sums, [known.index(found) for found in sums])
        assert dedup(peer, pack) == away(pack)
    os.close(pack)
    for program, peer in zip(programs, peers, strict=True):
        load(peer, X_BYTES)
        wake(peer)
        has_right_contents(program, peer, "x")


def test_again_and_again(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Memory that came back can be let go of as well, also with other contents."""
    peer, _ = reach_asleep_with(program, fake_scheduler)
    for turn in range(3):
        os.close(put_away(peer))
        load(peer, CHUNK // 2, X_BYTES - CHUNK // 2)
        wake(peer)
        program.begin(f"check x {f'x{turn}' if turn else 'x'}")
        peer.grant()
        assert program.answer() == "right"
        assert program.do(f"write x x{turn + 1}") == "0"
        peer.take_back()
        bring_out(peer)
        fall_asleep(peer.peer)


def test_a_file_and_a_pack(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """One after the other, whichever comes first."""
    peer = reach_asleep(program, fake_scheduler)
    for _ in range(2):
        os.close(put_away(peer))
        load(peer, X_BYTES)
        os.close(store(peer, tmp_path))
        load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_a_call_waits_meanwhile(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """It is answered when the program is awake, and finds its right bytes."""
    peer = reach_asleep(program, fake_scheduler)
    os.close(put_away(peer))
    program.begin("check x x")
    peer.expect(wire.Wake)
    program.waits()
    load(peer, X_BYTES)
    program.waits()
    peer.peer.send(wire.Awake())
    peer.expect(wire.ReqLock)
    peer.allot(X_BYTES, X_BYTES)
    peer.peer.grant()
    assert program.answer() == "right"


def test_fork(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """A child has neither the pack nor the catalogue."""
    peer = reach_asleep(program, fake_scheduler)
    pack, file, _ = packed(peer)
    children = [int(program.do("fork"))]
    try:
        # It closes the catalogue itself, as soon as it runs.
        poll_until(lambda: not has_open(children[0], "catalogue"), "the child has no catalogue")
        assert dedup(peer, pack) == away(pack)
        children.append(int(program.do("fork")))
        assert maps_pack(program.pid)
        assert not maps_pack(children[1])
        load(peer, X_BYTES)
        wake(peer)
        has_right_contents(program, peer, "x")
    finally:
        os.close(file)
        # They hold the program's pipes.
        for pid in children:
            os.kill(pid, 9)


def test_two_devices(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Each has its blocks away for itself, and the door opens when both are back."""
    program = start_swapping(**{paths.SIMGPU_DEVICES: "2x4GiB"})
    first = reach_registered(program, fake_scheduler, ARENA_BYTES)
    reach_written(program, first, "x", X_BYTES)
    program.begin("use 1")
    second = MemoryPeer(fake_scheduler.register())
    second.grow()
    assert program.answer() == "0"
    second.arena(ARENA_BYTES)
    second.heard(arena_bytes=ARENA_BYTES, usable_bytes=ARENA_BYTES)
    reach_written(program, second, "y", X_BYTES)
    for peer in (first, second):
        bring_out(peer)
    fall_asleep(first.peer)
    for peer in (first, second):
        os.close(put_away(peer))
    for peer in (second, first):
        load(peer, X_BYTES)
    first.peer.send(wire.Awake())
    for peer in (first, second):
        peer.allot(X_BYTES, X_BYTES)
        peer.heard(resident_bytes=X_BYTES)
    has_right_contents(program, second, "y")
    assert program.do("use 0") == "0"
    has_right_contents(program, first, "x")

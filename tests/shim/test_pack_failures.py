"""What can fail while blocks of host memory go into a pack, are there, and come back: never a wrong byte."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from nvshare.protocol import catalogue, wire
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.memory_peer import CHUNK, GRANULE, MemoryPeer
from tests.shim.packing import (
    BLOCKS,
    SHRINK,
    WRITE,
    allocated_bytes,
    away,
    dedup,
    has_open,
    maps_pack,
    name_blocks,
    new_catalogue,
    new_pack,
    packed,
    put_away,
    reach_asleep_with,
    seal,
    sum_up,
    write_pack,
)
from tests.shim.storing import (
    X_BYTES,
    ask_to_store,
    empty_file,
    has_right_contents,
    load,
    reach_asleep,
    store,
    wake,
)
from tests.shim.swapping import Start

LOST = "304"


@pytest.fixture
def program(start_swapping: Start) -> ControlledProgram:
    """Has one simulated device."""
    return start_swapping()


def goes_on(program: ControlledProgram, peer: MemoryPeer) -> None:
    """All is as before: it can be put away, and has its right bytes then."""
    put_away(peer)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")
    assert not maps_pack(program.pid)
    assert not has_open(program.pid, "catalogue")


def comes_back(program: ControlledProgram, scheduler: FakeScheduler, peer: MemoryPeer) -> MemoryPeer:
    """It ends the connection because of a frame that no scheduler sends, and connects again as it is."""
    assert hung_up(peer.peer)
    program.said("sent a frame of type")
    back = MemoryPeer(scheduler.register(epoch=2))
    assert back.expect(wire.Asleep) == wire.Asleep(0)
    return back


# Sums.


def test_a_catalogue_that_is_too_small(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """It says so, and another one may have room for all."""
    peer = reach_asleep(program, fake_scheduler)
    peer.send_with(wire.encode(wire.Sum()), new_catalogue(BLOCKS - 1))
    assert peer.expect(wire.Summed) == wire.Summed(text="it has more blocks than the catalogue has room for")
    assert not has_open(program.pid, "catalogue")
    peer.send_with(wire.encode(wire.Sum()), new_catalogue(BLOCKS))
    assert peer.expect(wire.Summed) == wire.Summed(BLOCKS)
    goes_on(program, peer)


def test_a_catalogue_that_can_not_be_written(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """Memory has all as before."""
    peer = reach_asleep(program, fake_scheduler)
    path = tmp_path / "catalogue"
    path.write_bytes(catalogue.head(bytes(catalogue.KEY_BYTES), BLOCKS))
    peer.send_with(wire.encode(wire.Sum()), os.open(path, os.O_RDONLY))
    assert peer.expect(wire.Summed) == wire.Summed(text="Bad file descriptor")
    goes_on(program, peer)


@pytest.mark.parametrize("size", [0, catalogue.HEAD_BYTES - 1])
def test_what_is_no_catalogue(program: ControlledProgram, fake_scheduler: FakeScheduler, size: int) -> None:
    """It has no head; or it is no file."""
    peer = reach_asleep(program, fake_scheduler)
    file = new_catalogue()
    os.truncate(file, size)
    peer.send_with(wire.encode(wire.Sum()), file)
    peer = comes_back(program, fake_scheduler, peer)
    reading, _ = os.pipe()
    peer.send_with(wire.encode(wire.Sum()), reading)
    goes_on(program, comes_back(program, fake_scheduler, peer))


def test_sum_while_awake(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """It is asked of nobody whose door is open."""
    peer = reach_asleep(program, fake_scheduler)
    wake(peer)
    peer.send_with(wire.encode(wire.Sum()), new_catalogue())
    assert hung_up(peer.peer)
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    peer.allot(X_BYTES, X_BYTES)
    has_right_contents(program, peer, "x")


def test_sum_while_a_file_has_it(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """It says that there is nothing to sum up."""
    peer = reach_asleep(program, fake_scheduler)
    store(peer, tmp_path)
    peer.send_with(wire.encode(wire.Sum()), new_catalogue())
    assert peer.expect(wire.Summed) == wire.Summed(text="its host memory is away, or not back yet")
    load(peer)
    goes_on(program, peer)


@pytest.mark.parametrize("frame", [wire.Pack(), wire.Dedup()], ids=["pack", "dedup"])
def test_without_a_catalogue(program: ControlledProgram, fake_scheduler: FakeScheduler, frame: wire.Frame) -> None:
    """That comes first, in each sleep anew."""
    peer = reach_asleep(program, fake_scheduler)
    pack = new_pack()
    peer.send_with(wire.encode(frame), pack)
    goes_on(program, comes_back(program, fake_scheduler, peer))


# A new pack.


@pytest.mark.parametrize("blocks", [1, BLOCKS - 1])
def test_blocks_that_a_pack_does_not_have(
    program: ControlledProgram, fake_scheduler: FakeScheduler, blocks: int
) -> None:
    """It writes none, and compares none: in a pack that is too short, or was cut before it was sealed."""
    peer = reach_asleep(program, fake_scheduler)
    file, sums = sum_up(peer)
    name_blocks(file, sums)
    why = "the catalogue names blocks that the pack does not have"
    pack = new_pack(blocks)
    peer.send_with(wire.encode(wire.Pack()), pack)
    assert peer.expect(wire.Packed) == wire.Packed(why)
    assert os.pread(pack, 1 << 20, 0) == bytes(1 << 20)
    pack = new_pack()
    write_pack(peer, pack)
    os.ftruncate(pack, blocks * GRANULE)
    seal(pack)
    assert dedup(peer, pack) == wire.Deduped(text=why)
    goes_on(program, peer)


def test_a_catalogue_that_was_cut(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """What it says can't be known."""
    peer = reach_asleep(program, fake_scheduler)
    file, _ = sum_up(peer)
    os.ftruncate(file, catalogue.HEAD_BYTES)
    peer.send_with(wire.encode(wire.Pack()), new_pack())
    assert peer.expect(wire.Packed) == wire.Packed("the catalogue can't be read")
    goes_on(program, peer)


def test_a_pack_that_can_not_be_written(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """It is sealed too early."""
    peer = reach_asleep(program, fake_scheduler)
    file, sums = sum_up(peer)
    name_blocks(file, sums)
    pack = new_pack()
    seal(pack)
    peer.send_with(wire.encode(wire.Pack()), pack)
    assert peer.expect(wire.Packed) == wire.Packed("Operation not permitted")
    assert not has_open(program.pid, "pack")
    goes_on(program, peer)


# Away.


@pytest.mark.parametrize("seals", [0, WRITE, SHRINK])
def test_a_pack_that_can_be_changed(program: ControlledProgram, fake_scheduler: FakeScheduler, seals: int) -> None:
    """It lets go of nothing for the sake of one that somebody may write or cut."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    file, sums = sum_up(peer)
    name_blocks(file, sums)
    pack = new_pack()
    write_pack(peer, pack)
    seal(pack, seals)
    assert dedup(peer, pack) == wire.Deduped(text="the pack can be changed, or can't be mapped")
    assert allocated_bytes(memory) == X_BYTES
    assert not maps_pack(program.pid)
    seal(pack)
    assert dedup(peer, pack) == away(pack)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_what_is_no_memory_file(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """A file on a disk can't be sealed."""
    peer = reach_asleep(program, fake_scheduler)
    _, file, sums = packed(peer)
    name_blocks(file, sums)
    other = os.open(tmp_path / "pack", os.O_RDWR | os.O_CREAT)
    os.truncate(other, X_BYTES)
    assert dedup(peer, other).text == "the pack can be changed, or can't be mapped"
    goes_on(program, peer)


@pytest.mark.parametrize("frame", ["store", "sum"])
def test_more_is_asked_for(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, frame: str
) -> None:
    """What has blocks away goes into no file and is summed up no more; the pack still has all."""
    peer = reach_asleep(program, fake_scheduler)
    put_away(peer)
    if frame == "store":
        ask_to_store(peer, empty_file(tmp_path))
        assert "blocks of it are kept with those of others" in peer.expect(wire.NotStored).text
    else:
        peer.send_with(wire.encode(wire.Sum()), new_catalogue())
        assert peer.expect(wire.Summed) == wire.Summed(text="its host memory is away, or not back yet")
    load(peer, X_BYTES)
    goes_on(program, peer)


@pytest.mark.parametrize("frame", ["awake", "too much", "no whole granules"])
def test_while_it_is_away(program: ControlledProgram, fake_scheduler: FakeScheduler, frame: str) -> None:
    """An open door before memory has all, or more memory than there was: the pack still has all."""
    peer = reach_asleep(program, fake_scheduler)
    pack = put_away(peer)
    peer.arena(GRANULE)
    match frame:
        case "awake":
            peer.peer.send(wire.Awake())
        case "too much":
            peer.arena(X_BYTES)
        case _:
            peer.arena(GRANULE + 4096)
    assert hung_up(peer.peer)
    program.said("sent a frame of type")
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    assert peer.expect(wire.Deduped) == away(pack)
    assert peer.expect(wire.Asleep) == wire.Asleep(0)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_a_program_that_closes_all_files(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """It has the pack all the same, and says so to the scheduler that it finds then."""
    peer = reach_asleep(program, fake_scheduler)
    pack = put_away(peer)
    program.do("close_all")
    with suppress(BrokenPipeError):
        peer.peer.revoke()
    assert hung_up(peer.peer)
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    assert peer.expect(wire.Deduped) == away(pack)
    assert peer.expect(wire.Asleep) == wire.Asleep(0)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_memory_that_can_not_be_mapped(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """What it had does not come back, which one line says: each of its calls fails from now on."""
    peer = reach_asleep(program, fake_scheduler)
    put_away(peer)
    program.begin("check x x")
    peer.expect(wire.Wake)
    limits = resource.prlimit(program.pid, resource.RLIMIT_AS, (GRANULE, resource.RLIM_INFINITY))
    peer.arena(CHUNK)
    program.client_waits(peer.peer)
    resource.prlimit(program.pid, resource.RLIMIT_AS, limits)
    peer.arena(X_BYTES - CHUNK)
    assert peer.expect(wire.Loaded) == wire.Loaded(lost=True)
    assert program.answer() == LOST
    (line,) = program.errors
    assert "could not be read back from its file: Cannot allocate memory" in line

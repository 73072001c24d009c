"""What can fail while host memory goes into a file, is there, and comes back: never a wrong byte."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up
from tests.shim.memory_peer import CHUNK, GRANULE, MemoryPeer
from tests.shim.storing import (
    ARENA_BYTES,
    X_BYTES,
    ask_to_store,
    bring_out,
    empty_file,
    fall_asleep,
    has_file,
    has_right_contents,
    load,
    maps_arena,
    reach_asleep,
    store,
    wake,
)
from tests.shim.swapping import Start

LOST = "304"
SIZES = f"({ARENA_BYTES >> 20} MiB)"


@pytest.fixture
def program(start_swapping: Start) -> ControlledProgram:
    """Has one simulated device."""
    return start_swapping()


def loses(program: ControlledProgram, peer: MemoryPeer, why: str, given_bytes: int = ARENA_BYTES) -> None:
    """What it had does not come back into so much memory, which one line says: each of its calls fails from now on."""
    program.begin("check x x")
    peer.expect(wire.Wake)
    peer.arena(given_bytes)
    assert peer.expect(wire.Loaded) == wire.Loaded(lost=True)
    assert program.answer() == LOST
    assert program.do("write x y") == LOST
    for lost in (False, True):
        peer.peer.send(wire.Awake(lost))
    program.client_waits(peer.peer)
    (line,) = program.errors
    assert f"could not be read back from its file: {why}" in line


# Writing.


def test_a_full_disk(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """No signal ends the program; memory has all as before, and another file may be tried."""
    peer = reach_asleep(program, fake_scheduler)
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (3 * GRANULE, resource.RLIM_INFINITY))
    file = empty_file(tmp_path)
    ask_to_store(peer, file)
    assert peer.expect(wire.NotStored).text == f"its host memory {SIZES} can't be written: File too large"
    poll_until(lambda: not has_file(program.pid, file), "the file is closed")
    assert os.fstat(file).st_size == 0
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store(peer, tmp_path)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_a_file_that_can_not_be_written(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """Memory has all as before, and the program wakes with that."""
    peer = reach_asleep(program, fake_scheduler)
    path = tmp_path / "file"
    path.touch()
    ask_to_store(peer, os.open(path, os.O_RDONLY))
    assert "Bad file descriptor" in peer.expect(wire.NotStored).text
    wake(peer)
    has_right_contents(program, peer, "x")
    assert program.errors == []


def test_the_driver_keeps_memory_registered(
    program: ControlledProgram, fake_scheduler: FakeScheduler, fail: Callable[..., None], tmp_path: Path
) -> None:
    """The program sleeps, but what host memory has stays there."""
    peer = reach_asleep(program, fake_scheduler)
    wake(peer)
    has_right_contents(program, peer, "x")
    bring_out(peer)
    fail(program, "cuMemHostUnregister", 999)
    fall_asleep(peer.peer)
    ask_to_store(peer, empty_file(tmp_path))
    assert "the driver has its host memory registered" in peer.expect(wire.NotStored).text
    wake(peer)
    has_right_contents(program, peer, "x")
    bring_out(peer)
    fail(program, "cuMemHostUnregister", 0)
    fall_asleep(peer.peer)
    store(peer, tmp_path)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_a_file_that_takes_the_last_descriptor(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """With it no host memory could come back: what it has stays there."""
    peer = reach_asleep(program, fake_scheduler)
    limits = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
    assert program.do("use_all_files 300") == "None"
    file = empty_file(tmp_path)
    ask_to_store(peer, file)
    assert "this program has no descriptors left" in peer.expect(wire.NotStored).text
    poll_until(lambda: not has_file(program.pid, file), "the file is closed")
    resource.prlimit(program.pid, resource.RLIMIT_NOFILE, limits)
    wake(peer)
    has_right_contents(program, peer, "x")


# Reading.


def test_a_file_that_was_cut(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """Its end is gone."""
    peer = reach_asleep(program, fake_scheduler)
    os.ftruncate(store(peer, tmp_path), X_BYTES - GRANULE)
    loses(program, peer, "it ends too early")


@pytest.mark.parametrize("place", [0, CHUNK - 1, X_BYTES - 1])
def test_a_file_that_was_changed(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, place: int
) -> None:
    """By one byte, wherever it is."""
    peer = reach_asleep(program, fake_scheduler)
    with Path(f"/proc/self/fd/{store(peer, tmp_path)}").open("r+b") as file:
        file.seek(place)
        (value,) = file.read(1)
        file.seek(place)
        file.write(bytes([value ^ 1]))
    loses(program, peer, "it has other contents than were written")


def test_granules_that_were_exchanged(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """Each is as it was written, but in another's place."""
    peer = reach_asleep(program, fake_scheduler)
    with Path(f"/proc/self/fd/{store(peer, tmp_path)}").open("r+b") as file:
        one, other = file.read(GRANULE), file.read(GRANULE)
        file.seek(0)
        file.write(other + one)
    loses(program, peer, "it has other contents than were written")


def test_it_is_lost_before_all_memory_has_come(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """That is said when all has: who gives more counts on being heard."""
    peer = reach_asleep(program, fake_scheduler)
    os.ftruncate(store(peer, tmp_path), 0)
    peer.arena(CHUNK)
    program.client_waits(peer.peer)
    loses(program, peer, "it ends too early", ARENA_BYTES - CHUNK)


# Frames that no scheduler sends.


def comes_back(
    program: ControlledProgram, scheduler: FakeScheduler, peer: MemoryPeer, stored: bool = True
) -> MemoryPeer:
    """It ends the connection, and connects again as it is."""
    assert hung_up(peer.peer)
    program.said("sent a frame of type")
    back = MemoryPeer(scheduler.register(epoch=2))
    if stored:
        back.expect(wire.Stored)
    assert back.expect(wire.Asleep) == wire.Asleep(0)
    return back


def test_store_while_awake(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """It is asked of nobody whose door is open."""
    peer = reach_asleep(program, fake_scheduler)
    wake(peer)
    file = empty_file(tmp_path)
    ask_to_store(peer, file)
    assert hung_up(peer.peer)
    assert not has_file(program.pid, file)
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    peer.allot(X_BYTES, X_BYTES)
    has_right_contents(program, peer, "x")


def test_what_is_no_empty_file(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """Nothing is written to a file that has contents, or to what is no file."""
    peer = reach_asleep(program, fake_scheduler)
    file = empty_file(tmp_path)
    os.ftruncate(file, GRANULE)
    ask_to_store(peer, file)
    peer = comes_back(program, fake_scheduler, peer, stored=False)
    reading, writing = os.pipe()
    ask_to_store(peer, writing)
    peer = comes_back(program, fake_scheduler, peer, stored=False)
    os.close(reading)
    os.close(writing)
    store(peer, tmp_path)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


@pytest.mark.parametrize("frame", ["store", "awake", "too much", "no whole granules"])
def test_while_it_is_stored(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, frame: str
) -> None:
    """A second file, an open door before memory has all, or more memory than there was: the file still has all."""
    peer = reach_asleep(program, fake_scheduler)
    store(peer, tmp_path)
    peer.arena(GRANULE)
    match frame:
        case "store":
            ask_to_store(peer, empty_file(tmp_path))
        case "awake":
            peer.peer.send(wire.Awake())
        case "too much":
            peer.arena(ARENA_BYTES)
        case _:
            peer.arena(GRANULE + 4096)
    peer = comes_back(program, fake_scheduler, peer)
    assert not maps_arena(program.pid)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")

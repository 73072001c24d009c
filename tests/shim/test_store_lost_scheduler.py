"""The scheduler dies while host memory goes into a file, is there, and comes back: what is begun goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, GRANULE, MemoryPeer
from tests.shim.storing import (
    ARENA_BYTES,
    X_BYTES,
    ask_to_store,
    empty_file,
    has_file,
    has_right_contents,
    load,
    maps_arena,
    meet_next,
    reach_asleep,
    store,
    wake,
)
from tests.shim.swapping import Start


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """While this is there the file is neither read nor written."""
    return tmp_path / "hold"


@pytest.fixture
def program(
    start_swapping: Start, libraries: Libraries, compile_c: Callable[..., Path], hold: Path
) -> ControlledProgram:
    """Has one simulated device; its file can be held."""
    held = compile_c("programs/held_files.c", "held_files.so", "-shared", "-fPIC")
    return start_swapping(HELD_FILES=str(hold), **{paths.LD_PRELOAD: f"{held}:{libraries.shim}"})


def store_held(peer: MemoryPeer, program: ControlledProgram, folder: Path, hold: Path) -> int:
    """It is being stored, and not much of it has been written; the file."""
    hold.touch()
    file = empty_file(folder)
    ask_to_store(peer, file)
    poll_until(lambda: has_file(program.pid, file), "the file has come")
    return file


def reach_held_writing(program: ControlledProgram, scheduler: FakeScheduler, folder: Path, hold: Path) -> MemoryPeer:
    """The next scheduler knows nothing of a file that is being written."""
    store_held(reach_asleep(program, scheduler), program, folder, hold)
    scheduler.die()
    peer = meet_next(scheduler)
    assert peer.resident.arena_bytes == ARENA_BYTES
    program.client_waits(peer.peer)
    return peer


def reach_held_reading(
    program: ControlledProgram, scheduler: FakeScheduler, folder: Path, hold: Path
) -> tuple[MemoryPeer, int]:
    """The next scheduler knows nothing of a file that is being read; the file."""
    peer = reach_asleep(program, scheduler)
    file = store(peer, folder)
    hold.touch()
    peer.arena(ARENA_BYTES)
    poll_until(lambda: maps_arena(program.pid), "the memory has come")
    scheduler.die()
    peer = meet_next(scheduler)
    assert peer.resident.arena_bytes == ARENA_BYTES
    program.client_waits(peer.peer)
    return peer, file


def test_while_a_file_has_it(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """The next one hears how much host memory there has to be, and then that; what was given is free."""
    peer = reach_asleep(program, fake_scheduler)
    store(peer, tmp_path)
    for given in (0, CHUNK + GRANULE):
        if given:
            peer.arena(given)
            program.client_waits(peer.peer)
            assert maps_arena(program.pid)
        fake_scheduler.die()
        peer = meet_next(fake_scheduler, said=wire.Stored())
        assert peer.resident.arena_bytes == ARENA_BYTES
        assert not maps_arena(program.pid)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_while_some_of_it_is_read(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path
) -> None:
    """What was given is let go when nobody reads into it any more, and the next one gives all."""
    peer = reach_asleep(program, fake_scheduler)
    store(peer, tmp_path)
    hold.touch()
    peer.arena(CHUNK)
    poll_until(lambda: maps_arena(program.pid), "some memory has come")
    fake_scheduler.die()
    hold.unlink()
    peer = meet_next(fake_scheduler, said=wire.Stored())
    assert not maps_arena(program.pid)
    load(peer, CHUNK, ARENA_BYTES - CHUNK)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_while_it_is_written(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path
) -> None:
    """It is written all the same, and the next one hears it then."""
    peer = reach_held_writing(program, fake_scheduler, tmp_path, hold)
    hold.unlink()
    peer.expect(wire.Stored)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_while_it_is_written_and_the_next_one_stores_it(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path
) -> None:
    """The first file is the answer to that, and the second one is not used."""
    peer = reach_held_writing(program, fake_scheduler, tmp_path, hold)
    other = empty_file(tmp_path)
    ask_to_store(peer, other)
    program.client_waits(peer.peer)
    assert not has_file(program.pid, other)
    hold.unlink()
    peer.expect(wire.Stored)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_while_it_is_written_and_the_next_one_wakes_it(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path
) -> None:
    """Memory keeps all, and the door opens when nothing is written any more."""
    peer = reach_held_writing(program, fake_scheduler, tmp_path, hold)
    program.begin("check x x")
    peer.expect(wire.Wake)
    peer.peer.send(wire.Awake())
    program.client_waits(peer.peer)
    program.waits()
    hold.unlink()
    peer.expect(wire.ReqLock)
    peer.allot(X_BYTES, X_BYTES)
    peer.peer.grant()
    assert program.answer() == "right"
    assert maps_arena(program.pid)


def test_while_it_is_read(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path
) -> None:
    """Memory has it then, and the next one hears nothing else; if that wakes it the door opens when all is read."""
    peer, _ = reach_held_reading(program, fake_scheduler, tmp_path, hold)
    program.begin("check x x")
    peer.expect(wire.Wake)
    peer.peer.send(wire.Awake())
    program.client_waits(peer.peer)
    program.waits()
    hold.unlink()
    peer.expect(wire.ReqLock)
    peer.allot(X_BYTES, X_BYTES)
    peer.peer.grant()
    assert program.answer() == "right"


def test_while_it_is_read_and_the_next_one_stores_it(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path
) -> None:
    """That one is told to wait, and can when all is read."""
    peer, file = reach_held_reading(program, fake_scheduler, tmp_path, hold)
    ask_to_store(peer, empty_file(tmp_path))
    assert "just being read back" in peer.expect(wire.NotStored).text
    hold.unlink()
    poll_until(lambda: not has_file(program.pid, file), "all is read")
    store(peer, tmp_path)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_what_goes_on_is_asked_for_again(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path
) -> None:
    """By the scheduler that has asked for it: then it ends the connection."""
    peer = reach_asleep(program, fake_scheduler)
    store_held(peer, program, tmp_path, hold)
    ask_to_store(peer, empty_file(tmp_path))
    program.said("sent a frame of type")
    peer = MemoryPeer(fake_scheduler.register(epoch=2))
    assert peer.expect(wire.Asleep) == wire.Asleep(0)
    hold.unlink()
    peer.expect(wire.Stored)
    load(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


@pytest.mark.parametrize("reading", [False, True])
def test_it_ends_meanwhile(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, hold: Path, reading: bool
) -> None:
    """The program is killed: nothing keeps it, its memory or its file."""
    if reading:
        reach_held_reading(program, fake_scheduler, tmp_path, hold)
    else:
        reach_held_writing(program, fake_scheduler, tmp_path, hold)
    program.process.kill()
    program.process.wait(10)

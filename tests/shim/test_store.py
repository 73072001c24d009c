"""Host memory of a program that sleeps goes into a file and comes back, with a scheduler that the test plays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, GRANULE, MemoryPeer, memory_file
from tests.shim.storing import (
    ARENA_BYTES,
    X_BYTES,
    bring_out,
    fall_asleep,
    has_file,
    has_right_contents,
    load,
    maps_arena,
    reach_asleep,
    store,
    wake,
)
from tests.shim.swapping import Start, reach_allocated, reach_registered, reach_written


@pytest.fixture
def program(start_swapping: Start) -> ControlledProgram:
    """Has one simulated device."""
    return start_swapping()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Where the driver notes its calls."""
    return tmp_path / "calls"


@pytest.fixture
def traced(start_swapping: Start, trace: Path) -> ControlledProgram:
    """The same, whose calls of the driver are noted."""
    return start_swapping(**{paths.SIMGPU_TRACE: str(trace)})


def calls(trace: Path) -> Iterator[str]:
    """The driver's functions that were called, by name."""
    yield from trace.read_text(encoding="ascii").split()


def registered(trace: Path) -> int:
    """How many pieces of host memory the driver knows."""
    named = list(calls(trace))
    return named.count("cuMemHostRegister_v2") - named.count("cuMemHostUnregister")


def test_away_and_back(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """Its memory is free while a file has it, of which nothing is left when it is back."""
    peer = reach_asleep(program, fake_scheduler)
    assert maps_arena(program.pid)
    file = store(peer, tmp_path)
    assert not maps_arena(program.pid)
    assert os.fstat(file).st_size == X_BYTES
    assert has_file(program.pid, file)
    load(peer)
    poll_until(lambda: not has_file(program.pid, file), "the file is closed")
    assert os.fstat(file).st_size == 0
    wake(peer)
    assert peer.resident.arena_bytes == peer.resident.usable_bytes == ARENA_BYTES
    has_right_contents(program, peer, "x")
    assert program.errors == []


def test_again_and_again(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """Also with other contents each time, some freed, some never written, and memory of small allocations."""
    peer = reach_registered(program, fake_scheduler, ARENA_BYTES)
    sizes = {"a": CHUNK, "b": 3 * GRANULE, "c": 4096}
    footprint = 2 * CHUNK + 4 * GRANULE
    for name, size in (sizes | {"empty": CHUNK}).items():
        reach_allocated(program, peer, name, size)
    for turn in range(3):
        reach_allocated(program, peer, "freed", GRANULE * (turn + 1))
        program.begin(f"write freed {turn}")
        peer.grant()
        assert program.answer() == "0"
        for name in sizes:
            assert program.do(f"write {name} {name}{turn}") == "0"
        peer.take_back()
        bring_out(peer)
        assert program.do("free freed") == "0"
        peer.heard(footprint_bytes=footprint)
        fall_asleep(peer.peer)
        file = store(peer, tmp_path)
        assert os.fstat(file).st_size == CHUNK + 4 * GRANULE
        os.close(file)
        load(peer)
        wake(peer, footprint)
        program.begin(f"check a a{turn}")
        peer.grant()
        assert program.answer() == "right"
        for name in sizes:
            assert program.do(f"check {name} {name}{turn}") == "right"
        peer.take_back()


@pytest.mark.parametrize(
    "sizes",
    [
        [ARENA_BYTES // GRANULE * GRANULE],
        [GRANULE, CHUNK + 3 * GRANULE, 2 * CHUNK, CHUNK - 4 * GRANULE],
        [GRANULE] * (ARENA_BYTES // GRANULE),
    ],
    ids=["one", "across", "smallest"],
)
def test_pieces_of_other_sizes(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, sizes: list[int]
) -> None:
    """It came in two parts that are not whole pieces, and comes back in other ones, which span their ends."""
    peer = reach_registered(program, fake_scheduler, 0)
    for size in (CHUNK + 5 * GRANULE, 3 * CHUNK - 5 * GRANULE):
        peer.arena(size)
    peer.heard(arena_bytes=ARENA_BYTES, usable_bytes=ARENA_BYTES)
    reach_written(program, peer, "x", X_BYTES)
    reach_written(program, peer, "y", CHUNK)
    bring_out(peer)
    fall_asleep(peer.peer)
    os.close(store(peer, tmp_path))
    load(peer, *sizes)
    wake(peer, X_BYTES + CHUNK)
    has_right_contents(program, peer, "x", "y")
    bring_out(peer)
    wake(peer, X_BYTES + CHUNK)
    has_right_contents(program, peer, "x", "y")


def test_the_driver_knows_nothing_of_it(
    traced: ControlledProgram, trace: Path, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """No piece is registered while it sleeps; once it is awake all are, the first one before it is copied from."""
    peer = reach_asleep(traced, fake_scheduler)
    assert registered(trace) == 0
    named = list(calls(trace))
    os.close(store(peer, tmp_path))
    load(peer)
    assert list(calls(trace)) == named
    wake(peer)
    poll_until(lambda: registered(trace) == ARENA_BYTES // CHUNK, "all is registered")
    copies = [name for name in list(calls(trace))[len(named) :] if "HostRegister" in name or "HtoD" in name]
    assert copies[0] == "cuMemHostRegister_v2"
    has_right_contents(traced, peer, "x")


def test_it_is_read_as_memory_comes(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """What fits into the first memory is there before the rest has come."""
    peer = reach_asleep(program, fake_scheduler)
    file = store(peer, tmp_path)
    stored = Path(f"/proc/self/fd/{file}").read_bytes()
    first = memory_file(CHUNK)
    peer.send_with(wire.encode(wire.Arena(CHUNK)), first)
    poll_until(lambda: os.pread(first, CHUNK, 0) == stored[:CHUNK], "the first part is read")
    load(peer, ARENA_BYTES - CHUNK)
    os.close(first)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_a_call_waits_meanwhile(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """It is answered when the program is awake, and finds its right bytes."""
    peer = reach_asleep(program, fake_scheduler)
    os.close(store(peer, tmp_path))
    program.begin("check x x")
    peer.expect(wire.Wake)
    program.waits()
    load(peer)
    program.waits()
    peer.peer.send(wire.Awake())
    peer.expect(wire.ReqLock)
    peer.allot(X_BYTES, X_BYTES)
    peer.peer.grant()
    assert program.answer() == "right"


def test_what_is_on_the_device_as_well_is_not_stored(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """Its host copy is given up: it is copied when it leaves again."""
    peer = reach_registered(program, fake_scheduler, ARENA_BYTES)
    reach_written(program, peer, "x", X_BYTES)
    peer.out_and_back(X_BYTES)
    fall_asleep(peer.peer)
    file = store(peer, tmp_path)
    assert os.fstat(file).st_size == 0
    load(peer)
    peer.peer.send(wire.Awake())
    bring_out(peer)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_fork(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """A child has neither the file nor the memory."""
    peer = reach_asleep(program, fake_scheduler)
    file = store(peer, tmp_path)
    children = [int(program.do("fork"))]
    try:
        # It closes the file itself, as soon as it runs.
        poll_until(lambda: not has_file(children[0], file), "the child has no file")
        peer.arena(GRANULE)
        program.client_waits(peer.peer)
        assert maps_arena(program.pid)
        children.append(int(program.do("fork")))
        assert not maps_arena(children[1])
        load(peer, ARENA_BYTES - GRANULE)
        wake(peer)
        has_right_contents(program, peer, "x")
    finally:
        # They hold the program's pipes.
        for pid in children:
            os.kill(pid, 9)


def test_two_devices(start_swapping: Start, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """One client is told to sleep and to wake, for all; each has a file of its own."""
    trace = tmp_path / "calls"
    program = start_swapping(**{paths.SIMGPU_DEVICES: "2x4GiB", paths.SIMGPU_TRACE: str(trace)})
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
    assert registered(trace) == 0
    for peer in (first, second):
        os.close(store(peer, tmp_path))
    load(second)
    load(first)
    first.peer.send(wire.Awake())
    for peer in (first, second):
        peer.allot(X_BYTES, X_BYTES)
        peer.heard(resident_bytes=X_BYTES)
    has_right_contents(program, second, "y")
    assert program.do("use 0") == "0"
    has_right_contents(program, first, "x")


def test_nothing_to_store(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """What was never written is in no file; without host memory there is nothing to give back."""
    peer = reach_registered(program, fake_scheduler, ARENA_BYTES)
    reach_allocated(program, peer, "x", X_BYTES)
    bring_out(peer)
    fall_asleep(peer.peer)
    file = store(peer, tmp_path)
    assert os.fstat(file).st_size == 0
    assert not maps_arena(program.pid)
    load(peer)
    wake(peer)

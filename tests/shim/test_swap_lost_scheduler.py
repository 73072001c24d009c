"""The scheduler dies while a program waits for memory: nobody is out of memory because of that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.programs.hog import Hog, hog
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.swapping import Start, reach_allocated, reach_registered

SMALL = {paths.SIMGPU_DEVICES: "1x1GiB/32MiB"}


@pytest.fixture
def other(environment: dict[str, str]) -> Iterator[Hog]:
    """A program that takes no part has the device's memory, when a test says so."""
    with hog(environment | SMALL, 1 << 30) as running:
        yield running


def reach_holding(program: ControlledProgram, scheduler: FakeScheduler) -> MemoryPeer:
    """It holds the lock, and has a chunk."""
    peer = reach_registered(program, scheduler)
    reach_allocated(program, peer, "x", CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    return peer


def lose(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """Its scheduler dies, and what the program called waits."""
    scheduler.die()
    program.said("lost the scheduler")
    program.waits()


def meet_next(scheduler: FakeScheduler) -> MemoryPeer:
    """The next scheduler is there."""
    scheduler.listen()
    return MemoryPeer(scheduler.register(epoch=2))


@pytest.mark.parametrize("command", ["alloc", "create", "alloc_array"])
@pytest.mark.parametrize("holds", [True, False])
def test_it_dies_before_it_answers(
    start_swapping: Start, fake_scheduler: FakeScheduler, other: Hog, command: str, holds: bool
) -> None:
    """What the driver has not waits for the next one, which is asked for it, as for any other growth."""
    program = start_swapping(**SMALL)
    peer = (reach_holding if holds else reach_registered)(program, fake_scheduler)
    other.leave(CHUNK)
    program.begin(f"{command} y {4 * CHUNK}")
    wanted = peer.expect(wire.Grow)
    lose(program, fake_scheduler)
    peer = meet_next(fake_scheduler)
    grow = peer.expect(wire.Grow)
    assert peer.resident.footprint_bytes < 4 * CHUNK
    assert peer.resident.fixed_bytes == 0
    assert (grow.footprint_bytes, grow.fixed_bytes) == (wanted.footprint_bytes, wanted.fixed_bytes)
    program.waits()
    other.leave_all()
    peer.allot(grow.footprint_bytes, grow.footprint_bytes, grow.request)
    assert program.answer() == "0"
    peer.heard(footprint_bytes=grow.footprint_bytes, fixed_bytes=grow.fixed_bytes)


def test_it_starts_between_two_schedulers(start_swapping: Start, fake_scheduler: FakeScheduler, other: Hog) -> None:
    """Where the driver has no memory for its context, the first scheduler that it meets is asked for that."""
    fake_scheduler.die()
    other.leave(0)
    program = start_swapping(**SMALL)
    program.begin("use")
    program.waits()
    fake_scheduler.listen()
    peer = MemoryPeer(fake_scheduler.register())
    grow = peer.expect(wire.Grow)
    assert (grow.footprint_bytes, grow.fixed_bytes) == (0, 0)
    program.waits()
    other.leave_all()
    peer.allot(0, 0, grow.request)
    assert program.answer() == "0"


def test_it_dies_after_it_has_granted(start_swapping: Start, fake_scheduler: FakeScheduler, other: Hog) -> None:
    """And the room was not there yet: the next one is asked anew."""
    program = start_swapping(**SMALL)
    peer = reach_holding(program, fake_scheduler)
    other.leave(0)
    program.begin(f"alloc y {4 * CHUNK}")
    peer.grow()
    while not peer.resident.lacking_bytes:
        peer.heard()
    lose(program, fake_scheduler)
    peer = meet_next(fake_scheduler)
    grow = peer.expect(wire.Grow)
    assert (peer.resident.footprint_bytes, grow.footprint_bytes) == (CHUNK, 5 * CHUNK)
    other.leave_all()
    peer.allot(grow.footprint_bytes, grow.footprint_bytes, grow.request)
    assert program.answer() == "0"


def test_the_next_one_refuses(start_swapping: Start, fake_scheduler: FakeScheduler, other: Hog) -> None:
    """Then it is out of memory, and nothing of it is counted any more."""
    program = start_swapping(**SMALL)
    peer = reach_holding(program, fake_scheduler)
    for command in (f"alloc y {4 * CHUNK}", f"create y {4 * CHUNK}", f"alloc_array y {4 * CHUNK}"):
        other.leave(CHUNK)
        program.begin(command)
        peer.expect(wire.Grow)
        fake_scheduler.die()
        peer = meet_next(fake_scheduler)
        grow = peer.expect(wire.Grow)
        peer.peer.send(wire.RefuseGrowth(grow.request, "the device is full"))
        assert program.answer() == "2"
        other.leave_all()
        program.begin(f"alloc z {3 * CHUNK}")
        grow = peer.grow()
        assert (grow.footprint_bytes, grow.fixed_bytes) == (4 * CHUNK, 0)
        assert program.answer() == "0"
        assert program.do("free z") == "0"
        peer.heard(footprint_bytes=CHUNK, resident_bytes=CHUNK)


def test_the_next_one_refuses_the_program(start_swapping: Start, fake_scheduler: FakeScheduler, other: Hog) -> None:
    """One that is told to run without a scheduler does not wait for another one: the driver's answer counts."""
    program = start_swapping(**SMALL, **{paths.ON_MISSING: "run"})
    peer = reach_holding(program, fake_scheduler)
    other.leave(CHUNK)
    program.begin(f"alloc y {4 * CHUNK}")
    peer.expect(wire.Grow)
    fake_scheduler.die()
    fake_scheduler.listen()
    fake_scheduler.accept().send(wire.Refused("by chance"))
    assert program.answer() == "2"


def test_what_the_driver_has_is_had_meanwhile(start_swapping: Start, fake_scheduler: FakeScheduler, other: Hog) -> None:
    """By threads that come later, although one waits."""
    program = start_swapping(**SMALL)
    peer = reach_holding(program, fake_scheduler)
    other.leave(CHUNK + CHUNK // 2)
    assert program.do(f"alloc_beside y {4 * CHUNK}") == "None"
    peer.expect(wire.Grow)
    fake_scheduler.die()
    program.said("lost the scheduler")
    assert program.do("alloc z 2097152") == "0"
    peer = meet_next(fake_scheduler)
    grow = peer.expect(wire.Grow)
    other.leave_all()
    peer.allot(grow.footprint_bytes, grow.footprint_bytes, grow.request)
    assert program.do("join y") == "0"


def test_it_dies_before_there_is_a_context(start_swapping: Start, fake_scheduler: FakeScheduler, other: Hog) -> None:
    """For which the driver has no room."""
    program = start_swapping(**SMALL)
    other.leave(0)
    program.begin("use")
    MemoryPeer(fake_scheduler.register()).expect(wire.Grow)
    lose(program, fake_scheduler)
    peer = meet_next(fake_scheduler)
    grow = peer.expect(wire.Grow)
    other.leave_all()
    peer.allot(0, 0, grow.request)
    assert program.answer() == "0"

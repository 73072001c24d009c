"""Host memory goes back when the program has freed what it was for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import TIMEOUT
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.swapping import Start, reach_allocated, reach_registered, reach_written

TWO = 2 * CHUNK


def patient(peer: MemoryPeer) -> MemoryPeer:
    """Waits for longer than what is to go back stays."""
    peer.peer.connection.settimeout(6 * TIMEOUT)
    return peer


def segments_of(program: ControlledProgram) -> int:
    """How many memory files it has mapped: each is one segment, whose memory is free when nobody has it mapped."""
    return sum("memfd:arena" in line for line in Path(f"/proc/{program.pid}/maps").read_text().splitlines())


def has_arena(peer: MemoryPeer, *sizes: int) -> None:
    """It has segments of these sizes."""
    for size in sizes:
        before = peer.resident.arena_bytes
        peer.arena(size)
        peer.heard(arena_bytes=before + size, usable_bytes=before + size)


def reads(program: ControlledProgram, peer: MemoryPeer, name: str) -> None:
    """What it has under this name is what it wrote there."""
    program.begin(f"check {name} {name}")
    peer.grant()
    assert program.answer() == "right"
    peer.take_back()


def test_what_was_freed_needs_no_host_memory(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Six chunks are out, and four of them are freed: of three segments one goes back, as what is admitted and not
    used has host memory too. What comes then takes its place."""
    program = start_swapping()
    peer = patient(reach_registered(program, fake_scheduler, arena=0))
    has_arena(peer, TWO, TWO, TWO)
    for name in "abc":
        reach_written(program, peer, name, TWO)
    peer.evict(0)
    peer.heard(resident_bytes=0, out_bytes=3 * TWO)
    assert program.do("free b") == program.do("free c") == "0"
    said = peer.heard(arena_bytes=2 * TWO)
    assert (said.returned_bytes, said.usable_bytes, said.admitted_bytes) == (TWO, 2 * TWO, 3 * CHUNK)
    assert segments_of(program) == 2
    peer.allot(TWO, 3 * TWO)
    peer.heard(resident_bytes=TWO)
    reads(program, peer, "a")
    has_arena(peer, TWO)
    for name in "bc":
        reach_written(program, peer, name, TWO)
    peer.out_and_back(3 * TWO)
    for name in "abc":
        reads(program, peer, name)
    assert peer.resident.returned_bytes == TWO
    assert program.errors == []


def test_a_copy_of_what_is_on_the_device_keeps_none(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It is made again when that leaves."""
    program = start_swapping()
    peer = patient(reach_registered(program, fake_scheduler, arena=0))
    has_arena(peer, CHUNK)
    reach_written(program, peer, "a", CHUNK)
    peer.out_and_back(CHUNK)
    has_arena(peer, TWO)
    peer.tell(TWO, TWO)
    peer.heard(arena_bytes=TWO, returned_bytes=CHUNK)
    peer.out_and_back(CHUNK)
    assert peer.resident.spared_bytes == 0
    reads(program, peer, "a")


def time_passes(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """As much as it takes until another program gives back what it is sent from now on."""
    peer = patient(reach_registered(start_swapping(), fake_scheduler, arena=0))
    has_arena(peer, CHUNK)
    peer.heard(arena_bytes=0, returned_bytes=CHUNK)


@pytest.mark.parametrize("other_gpu", [False, True])
def test_it_stays_during_a_turn(start_swapping: Start, fake_scheduler: FakeScheduler, *, other_gpu: bool) -> None:
    """On any GPU: the driver might wait for what runs before it lets host memory go, and the program with it."""
    program = start_swapping(**{paths.SIMGPU_DEVICES: "2x4GiB"})
    peer = holder = patient(reach_registered(program, fake_scheduler, arena=0))
    if other_gpu:
        program.begin("use 1")
        holder = MemoryPeer(fake_scheduler.register())
        holder.grow()
        assert program.answer() == "0"
    reach_allocated(program, holder, "a", CHUNK)
    program.begin("write a a")
    holder.grant()
    assert program.answer() == "0"
    has_arena(peer, CHUNK, TWO)
    time_passes(start_swapping, fake_scheduler)
    assert segments_of(program) == 2
    holder.take_back()
    if other_gpu:
        # Nobody tells this one's mover of that; it looks again when it has more.
        has_arena(peer, TWO)
    peer.heard(arena_bytes=0 if other_gpu else CHUNK)


@pytest.mark.soak
def test_the_driver_does_not_let_it_go(
    start_swapping: Start, fake_scheduler: FakeScheduler, fail: Callable[..., None]
) -> None:
    """Then it stays, and is used; it goes when that works and something else has happened."""
    program = start_swapping(**{paths.DEBUG: "1"})
    peer = patient(reach_registered(program, fake_scheduler, arena=0))

    def answers(command: str) -> str:
        """It asks why it waits for its turn, too, so that it can log that."""
        program.begin(command)
        peer.expect(wire.ReqLock)
        peer.expect(wire.AskReason)
        peer.peer.grant()
        answer = program.answer()
        peer.take_back()
        return answer

    fail(program, "cuMemHostUnregister", 999)
    has_arena(peer, CHUNK, CHUNK, CHUNK)
    reach_allocated(program, peer, "a", CHUNK)
    said = "the driver does not let go of host memory (error 999)"
    poll_until(lambda: any(said in line for line in program.errors), "it was tried", 6 * TIMEOUT)
    reach_allocated(program, peer, "b", TWO)
    assert [answers(f"write {name} {name}") for name in "ab"] == ["0", "0"]
    peer.out_and_back(3 * CHUNK)
    assert [answers(f"check {name} {name}") for name in "ab"] == ["right", "right"]
    assert peer.resident.returned_bytes == 0
    fail(program, "cuMemHostUnregister", 0)
    assert program.do("free b") == "0"
    peer.tell(CHUNK, CHUNK)
    peer.heard(arena_bytes=CHUNK, returned_bytes=TWO)

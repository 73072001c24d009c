"""Memory that swaps, against a scheduler that the test plays: allotments, and what the mover does of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, GRANULE, MIB, MemoryPeer

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

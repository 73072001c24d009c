"""Steps that tests of swapping share: how a program comes to have memory."""

from __future__ import annotations

from collections.abc import Callable

from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, MemoryPeer

Start = Callable[..., ControlledProgram]


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


def reach_written(program: ControlledProgram, peer: MemoryPeer, name: str, size: int, seed: str = "") -> None:
    """Its memory has contents, those of its name or of another seed, and the lock is given back."""
    reach_allocated(program, peer, name, size)
    program.begin(f"write {name} {seed or name}")
    peer.grant()
    assert program.answer() == "0"
    peer.take_back()

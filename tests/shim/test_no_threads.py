"""A system that has no thread for the library: nobody waits for what a thread that is not there would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.swapping import Start, reach_registered, reach_written

CLIENT, MOVER = 1, 2
"""The threads, in the order in which they are begun."""


@pytest.fixture
def start_without(
    start_swapping: Start, libraries: Libraries, compile_c: Callable[..., Path]
) -> Callable[..., ControlledProgram]:
    """Starts a program in which this thread can't be had at first, or so many from this one on."""
    library = compile_c("programs/no_threads.c", "no_threads.so", "-shared", "-fPIC", "-ldl")
    preloaded = f"{library}:{libraries.shim}"

    def start(thread: int, count: int = 1) -> ControlledProgram:
        refused = f"{thread} {thread + count - 1}"
        return start_swapping(**{paths.LD_PRELOAD: preloaded, "NVSHARE_TEST_THREADS": refused})

    return start


def test_a_context_without_a_client(
    start_without: Callable[..., ControlledProgram], fake_scheduler: FakeScheduler
) -> None:
    """It is made at once, as where there is no scheduler; the first submission has the client begin after all."""
    program = start_without(CLIENT)
    program.begin("use")
    assert program.answered(5)
    assert program.answer() == "0"
    assert program.said("no thread can be created for device 0")
    submits(program, fake_scheduler)


def test_a_submission_without_a_client(
    start_without: Callable[..., ControlledProgram], fake_scheduler: FakeScheduler
) -> None:
    """It waits until there is a thread, and asks for one itself: nobody else may submit anything."""
    program = start_without(CLIENT, 4)
    assert program.do("use") == "0"
    submits(program, fake_scheduler)


def submits(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """It allocates and submits, which has its client begin and wait for the lock."""
    assert program.do(f"alloc x {CHUNK}") == "0"
    program.begin("write x x")
    peer = MemoryPeer(fake_scheduler.register())
    assert peer.peer.register.state is wire.State.WAITING
    peer.peer.grant()
    assert program.answer() == "0"


def test_memory_leaves_though_there_was_no_mover(
    start_without: Callable[..., ControlledProgram], fake_scheduler: FakeScheduler
) -> None:
    """Others that wait for its memory need not wait until the program computes again."""
    program = start_without(MOVER)
    peer = reach_registered(program, fake_scheduler, arena=0)
    peer.arena(2 * CHUNK)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"

"""A process that has no memory for a moment when the library's own threads need some: none of them ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nvshare import paths
from tests.conftest import Libraries
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.swapping import Start, reach_registered, reach_written


def test_turns_and_moves_go_on(
    start_swapping: Start, libraries: Libraries, compile_c: Callable[..., Path], fake_scheduler: FakeScheduler
) -> None:
    """The lock is used and given back, and memory leaves and comes back: others wait for all of that."""
    library = compile_c("programs/no_marks.c", "no_marks.so", "-shared", "-fPIC", "-ldl")
    program = start_swapping(**{paths.LD_PRELOAD: f"{library}:{libraries.shim}", "NVSHARE_TEST_MARKS": "3"})
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"
    peer.take_back()

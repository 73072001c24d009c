"""A process for which there is no memory where the library's own threads need some: all goes on all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from tests.conftest import Libraries
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.swapping import Start, reach_registered, reach_written

Preload = Callable[[str], str]


@pytest.fixture
def beside(libraries: Libraries, compile_c: Callable[..., Path]) -> Preload:
    """What is preloaded so that one of ``programs/`` comes before the library."""
    return lambda name: f"{compile_c(f'programs/{name}.c', f'{name}.so', '-shared', '-fPIC', '-ldl')}:{libraries.shim}"


def test_threads_without_marks(start_swapping: Start, beside: Preload, fake_scheduler: FakeScheduler) -> None:
    """Where there is none when they begin they wait for it; none of them ends."""
    program = start_swapping(**{paths.LD_PRELOAD: beside("no_marks"), "NVSHARE_TEST_MARKS": "3"})
    takes_turns_and_moves(program, fake_scheduler)


def test_words_that_can_not_be_sent(start_swapping: Start, beside: Preload, fake_scheduler: FakeScheduler) -> None:
    """The client wakes all the same when the program has something to say to it."""
    takes_turns_and_moves(start_swapping(**{paths.LD_PRELOAD: beside("no_wakes")}), fake_scheduler)


def takes_turns_and_moves(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """The lock is used and given back, and memory leaves and comes back: others wait for all of that."""
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"
    peer.take_back()

"""A program that rests and sleeps again and again, its memory in a file, in a pack or not, while schedulers die."""

from __future__ import annotations

import platform
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from tests.conftest import Libraries
from tests.programs.compiler import compiled
from tests.shim.controlled_program import ControlledProgram
from tests.shim.drowsy_scheduler import Drowsy
from tests.shim.fake_scheduler import FakeScheduler

pytestmark = pytest.mark.soak


@pytest.fixture
def program(environment: dict[str, str], libraries: Libraries, tmp_path: Path) -> Iterator[ControlledProgram]:
    """Has some memory, and rests whenever it is not told to look at that."""
    path = compiled("rests", build_native.TARGETS[platform.machine()], libraries.cuda, tmp_path)
    own = {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}
    running = ControlledProgram(environment | own, (), str(path), ("8", "1"), compiled=True)
    yield running
    running.end()


@pytest.mark.parametrize("seed", range(3))
def test_right_bytes(program: ControlledProgram, fake_scheduler: FakeScheduler, tmp_path: Path, seed: int) -> None:
    """Whatever happens, every byte is right, and each scheduler can go on where another one ended."""
    drowsy = Drowsy(fake_scheduler, program, tmp_path, random.Random(seed), dies=0.3)
    drowsy.meet()
    for _ in range(40):
        drowsy.turn()
    while min(drowsy.lives, drowsy.stored, drowsy.deduped) < 5:
        drowsy.turn()

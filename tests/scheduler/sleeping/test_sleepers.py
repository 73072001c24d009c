"""Which sleepers begin when, and what becomes of them; other programs stand for them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import structlog

from nvshare.scheduler.sleeping import sleepers as module
from nvshare.scheduler.sleeping.sleeper import End, Goal
from nvshare.scheduler.sleeping.sleepers import Outcome, Running, Sleepers
from tests.polling import until

_SAYS = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("asleep", "-", 0, 0.5)
"""


class Scene:
    """Sleepers by their pids: each goes on when there is a file of that name."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
        self._folder = folder
        self._begun: list[module._Sleeper] = []
        self.outcomes: dict[int, Outcome | None] = {}

        def command(pid: int, _goal: Goal) -> list[str]:
            return [sys.executable, "-I", "-S", "-c", program, str(folder / str(pid))]

        monkeypatch.setattr(module, "command", command)
        begin = module._Sleeper.begin

        def note(sleeper: module._Sleeper) -> None:
            begin(sleeper)
            self._begun.append(sleeper)

        monkeypatch.setattr(module._Sleeper, "begin", note)
        self.sleepers = Sleepers(asyncio.get_running_loop(), structlog.wrap_logger(structlog.testing.CapturingLogger()))

    @property
    def begun(self) -> list[int]:
        """Those that have begun, in this order."""
        return [int(Path(sleeper._command_line[-1]).name) for sleeper in self._begun]

    async def end(self) -> None:
        """Nothing is left of them."""
        self.sleepers.stop()
        await until(lambda: all(sleeper.has_ended() for sleeper in self._begun), "all have ended")

    def start(self, pid: int, goal: Goal = Goal.ASLEEP) -> Running:
        """One in line."""
        return self.sleepers.start(pid, goal, self._done(pid))

    def let_go(self, *pids: int) -> None:
        """These go on."""
        for pid in pids:
            (self._folder / str(pid)).touch()

    def _done(self, pid: int) -> Callable[[Outcome | None], None]:
        def done(outcome: Outcome | None) -> None:
            self.outcomes[pid] = outcome

        return done


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Scene]]:
    """Makes the scene; ``program``: instead of one that waits."""
    scenes: list[Scene] = []

    def make(program: str = _SAYS) -> Scene:
        scenes.append(Scene(tmp_path, monkeypatch, program))
        return scenes[-1]

    yield make
    for scene in scenes:
        await scene.end()


async def test_so_many_at_a_time(stage: Callable[..., Scene]) -> None:
    """Then who is to wake comes first, and who was given up not at all."""
    scene = stage()
    for pid in range(1, 11):
        scene.start(pid)
    given_up = scene.start(11)
    scene.start(12, Goal.AWAKE)
    await until(lambda: scene.begun, "they begin")
    # All were in line before the first one began: who is to wake went ahead of them.
    assert scene.begun == [12, *range(1, 8)]
    given_up.give_up()
    scene.let_go(*range(1, 13))
    await until(lambda: len(scene.outcomes) == 11, "they have ended")
    assert set(scene.outcomes.values()) == {Outcome(End.ASLEEP, seconds=0.5)}
    assert scene.begun[8:] == [8, 9, 10]


async def test_none_waits_for_one_that_hangs(stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as its target stands still."""
    monkeypatch.setattr(module, "_YOUNG_SECONDS", 0.05)
    scene = stage()
    for pid in range(1, 9):
        scene.start(pid)
    scene.let_go(9)
    scene.start(9)
    await until(lambda: 9 in scene.outcomes, "another one is done")


async def test_one_that_says_nothing(stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """It died, or can't be started, or says what nobody understands."""
    scene = stage("print('nonsense')")
    scene.start(1)
    await until(lambda: 1 in scene.outcomes, "it is noticed")
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    scene.start(2)
    await until(lambda: 2 in scene.outcomes, "it is noticed")
    assert scene.outcomes == {1: None, 2: None}


async def test_others_speak_in_its_place(stage: Callable[..., Scene]) -> None:
    """As the loader does where LD_PRELOAD names what is not there: what became of its target is heard all the same."""
    noise = "print('ERROR: ld.so: object cannot be preloaded: ignored.')"
    scene = stage(f"{noise}; print('asleep', '-', 0, 0.5); {noise}")
    scene.start(1)
    await until(lambda: 1 in scene.outcomes, "it is done")
    assert scene.outcomes == {1: Outcome(End.ASLEEP, seconds=0.5)}


async def test_given_up_while_it_works(stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is heard of it, and the next one begins."""
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    scene = stage()
    scene.let_go(2)
    first = scene.start(1)
    scene.start(2)
    await until(lambda: scene.begun, "the first one works")
    first.give_up()
    await until(lambda: 2 in scene.outcomes, "the second one is done")
    assert 1 not in scene.outcomes

"""Who dies within a step of a process's way to sleep and back: nobody stays between the two."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.sleeping.sleepy import OPTIONS, Sleepy, SleepyProcess, sleepers_of
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]
Start = Callable[..., SleepyProcess]
STEPS = ("Lock", "Checkpoint", "Restore", "Unlock")


class Scene:
    """A scheduler whose sleepers' calls can be seen, and one process."""

    def __init__(self, serve: Serve, start: Start, devices: dict[str, str], trace: Path) -> None:
        self._serve, self.start = serve, start
        self._environment = devices | {"NVSHARE_SIMGPU_TRACE": str(trace)}
        self._trace = trace
        self.scheduler = self.serve()
        self.client = Sleepy(start(), self.scheduler)

    def serve(self) -> Scheduler:
        """Another scheduler after the one before, which has ended."""
        self.scheduler = self._serve(*OPTIONS, environment=self._environment)
        return self.scheduler

    def goes_to(self, step: str) -> None:
        """The process is in this step, or just behind it."""
        self.client.come()
        if step in ("Restore", "Unlock"):
            self.client.falls_asleep()
            self.client.client.send(wire.Wake())
        self.client.sees(
            lambda: f"cuCheckpointProcess{step}\n" in self._trace.read_text(), f"the driver is told {step}"
        )


@pytest.fixture
def scene(serve: Serve, start: Start, devices: dict[str, str], tmp_path: Path) -> Scene:
    """One with nobody asleep."""
    (tmp_path / "trace").touch()
    return Scene(serve, start, devices, tmp_path / "trace")


@pytest.mark.parametrize("step", STEPS)
def test_its_sleeper_dies(scene: Scene, step: str) -> None:
    """The next one goes on, or takes it back."""
    scene.goes_to(step)
    for pid in sleepers_of(scene.scheduler):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    client = scene.client
    if client.door.is_closed and step in ("Restore", "Unlock"):
        client.sees(lambda: not client.door.is_closed, "it is told to open its door")
    client.falls_asleep().wakes()


@pytest.mark.parametrize("step", STEPS)
def test_it_dies(scene: Scene, step: str) -> None:
    """Nobody is at work for it any more, and others sleep."""
    scene.goes_to(step)
    scene.client.process.kill()
    scene.client.client.close()
    poll_until(lambda: not scene.scheduler.states(), "it is gone", TIMEOUT_SECONDS)
    poll_until(lambda: not sleepers_of(scene.scheduler), "nobody is at work", TIMEOUT_SECONDS)
    Sleepy(scene.start(), scene.scheduler).come().falls_asleep().wakes()
    assert not [line for line in scene.scheduler.log() if line["level"] == "error"]


@pytest.mark.parametrize("step", STEPS)
def test_the_scheduler_dies(scene: Scene, step: str) -> None:
    """Its sleepers with it. The next one finds out, from a process that says that its door is closed."""
    scene.goes_to(step)
    sleepers = sleepers_of(scene.scheduler)
    scene.scheduler.kill()
    poll_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in sleepers), "they are gone", TIMEOUT_SECONDS)
    former = scene.client
    client = Sleepy(former.process, scene.serve(), former.door).come()
    client.falls_asleep().wakes()


@pytest.mark.parametrize("step", STEPS)
def test_its_connection_ends(scene: Scene, step: str) -> None:
    """It comes back, and says that its door is closed if it is."""
    scene.goes_to(step)
    former = scene.client
    former.client.close()
    client = Sleepy(former.process, scene.scheduler, former.door).come()
    client.falls_asleep().wakes()

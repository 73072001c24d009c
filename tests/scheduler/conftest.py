"""Fixtures for tests of the running scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import pytest

from nvshare import paths, simgpu
from nvshare.paths import RunDir
from tests.conftest import SOURCE_ROOT, Libraries
from tests.scheduler.cgroup import Cgroup, new_cgroup
from tests.scheduler.situations import OPTIONS
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram


@pytest.fixture
def serve(run_dir: RunDir) -> Iterator[Callable[..., Scheduler]]:
    """Starts a scheduler with the given options in the test's run directory; each is ended with the test."""
    with ExitStack() as stack:
        yield lambda *options, **more: stack.enter_context(Scheduler(run_dir.root / "run", *options, **more))


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    """A memory cgroup that the test's scheduler can join."""
    with new_cgroup() as made:
        yield made


@pytest.fixture
def small_devices(libraries: Libraries, tmp_path: Path) -> dict[str, str]:
    """The environment of whoever sees two small simulated GPUs."""
    return simgpu.environment(tmp_path / "simgpu", "2x512MiB/16MiB")


@pytest.fixture
def scheduler(serve: Callable[..., Scheduler], small_devices: dict[str, str]) -> Scheduler:
    """One for these, with host memory for all."""
    return serve(*OPTIONS, environment=small_devices)


@pytest.fixture
def start_calling(
    libraries: Libraries, small_devices: dict[str, str], run_dir: RunDir
) -> Iterator[Callable[..., ControlledProgram]]:
    """Starts programs that do there what a test says (``call_loop.py``), with memory that swaps, and more variables."""
    variables = small_devices | {
        paths.LD_PRELOAD: str(libraries.shim),
        paths.RUN_DIR: str(run_dir.root / "run"),
        paths.MEMORY: "swap",
        "PYTHONPATH": str(SOURCE_ROOT),
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def begin(more: Mapping[str, str] = MappingProxyType({})) -> ControlledProgram:
            program = ControlledProgram(variables | more, name="call_loop.py")
            stack.callback(program.end)
            return program

        yield begin

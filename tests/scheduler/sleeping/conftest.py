"""Fixtures for tests of processes that sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nvshare import simgpu
from tests.conftest import Libraries
from tests.scheduler.sleeping.sleepy import SleepyProcess


@pytest.fixture
def devices(libraries: Libraries, tmp_path: Path) -> dict[str, str]:
    """Two GPUs, on which a context is as large as on a real one."""
    return simgpu.environment(tmp_path / "simgpu", "2x2GiB/600MiB")


@pytest.fixture
def start(devices: dict[str, str]) -> Iterator[Callable[..., SleepyProcess]]:
    """Starts processes on these GPUs, with a context on the first ``gpus`` of them."""
    with ExitStack() as stack:
        yield lambda gpus=1: stack.enter_context(SleepyProcess(devices, gpus))

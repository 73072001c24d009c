"""Places to try rows in: simulated GPUs, small programs, short times."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import simgpu
from tests.conftest import Libraries
from tests.gpu import machine, trial
from tests.gpu.__main__ import program_environment
from tests.gpu.results import Found
from tests.gpu.rows import Row
from tests.gpu.trial import Setting

MEMORY = 16 << 20
CONTEXTS = "24GiB/768MiB"
"""The contexts of a framework's programs, for which a hog leaves room."""


@pytest.fixture
def simulated(libraries: Libraries, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The environment of a runner that sees so many simulated GPUs of its own."""

    def environment(count: int = 1) -> dict[str, str]:
        inherited = program_environment()
        return {**inherited, **simgpu.environment(tmp_path / "gpus", f"{count}x{CONTEXTS}", inherited)}

    return environment


@pytest.fixture
def tried(simulated: Callable[..., dict[str, str]], tmp_path: Path) -> Callable[..., Found]:
    """Tries a row on simulated GPUs; logs go to ``tmp_path``/logs."""

    def perform(row: Row, seconds: float = 0.6, row_seconds: float = 200.0) -> Found:
        environment = simulated(row.ranks)
        here = machine.look(sys.executable, [row], environment)
        setting = Setting(sys.executable, MEMORY, seconds, environment, row_seconds)
        return trial.perform(row, here, setting, lambda _: None)

    return perform

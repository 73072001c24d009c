"""The chaos for real GPUs on a simulated one: what it says of programs that are right, and of one that crashes."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.gpu import chaos
from tests.gpu.rows import Row

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

FAULTY = str(Path(__file__).parent / "faulty.py")
Simulated = Callable[..., dict[str, str]]


def rage(simulated: Simulated, names: list[str], seconds: float) -> list[str]:
    """What is said of these in so long. A socket's path has to be short."""
    options = argparse.Namespace(only=names, memory=16, seconds=seconds, seed=5)
    with tempfile.TemporaryDirectory(prefix="nvs-") as folder, ExitStack() as stack:
        return chaos.run(options, simulated(), Path(folder), stack)


def test_right_programs(simulated: Simulated) -> None:
    """All are right, whatever is done to them, and something is."""
    said = rage(simulated, ["driver", "driver", "driver"], 12.0)
    assert not [line for line in said if line.startswith("wrong")]
    assert all(int(line.split()[1]) > 0 for line in said[:3]), said
    assert "scheduler" in said[3]


def test_program_that_crashes(simulated: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with its end, though others are killed that nobody blames."""
    monkeypatch.setitem(chaos.ROWS, "crash", Row("crashes under nvshare", FAULTY, "crash"))
    said = rage(simulated, ["driver", "crash"], 30.0)
    wrong = [line for line in said if line.startswith("wrong")]
    assert any(line.startswith("wrong: crash1-") and "ended" in line for line in wrong), said
    assert not [line for line in wrong if line.startswith("wrong: driver")]

"""What contexts of sleeping processes take outlives the scheduler, as long as the processes live."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from nvshare.scheduler.pods.processes import start_time
from nvshare.scheduler.recovery.awaited import Process
from nvshare.scheduler.recovery.contexts import Contexts

MIB = 1 << 20


def opened(path: Path) -> Contexts:
    """Those of the next scheduler."""
    return Contexts(path, structlog.get_logger())


def process(pid: int, device: str = "GPU-a") -> Process:
    return Process(device, pid, start_time(pid))


ME = process(os.getpid())


def test_the_next_one_reads_them(tmp_path: Path) -> None:
    """What was measured last; only its owner may read the file."""
    path = tmp_path / "contexts.json"
    contexts, elsewhere = opened(path), process(os.getpid(), "GPU-b")
    assert contexts.of(ME) is None
    contexts.note(ME, 600 * MIB)
    contexts.note(elsewhere, 500 * MIB)
    contexts.note(ME, 640 * MIB)
    assert contexts.of(ME) == opened(path).of(ME) == 640 * MIB
    assert opened(path).of(elsewhere) == 500 * MIB
    assert path.stat().st_mode & 0o777 == 0o600


def test_those_that_have_ended_are_forgotten(tmp_path: Path) -> None:
    """With the next that is written."""
    path = tmp_path / "contexts.json"
    contexts = opened(path)
    with subprocess.Popen(["sleep", "1000"]) as other:
        gone = process(other.pid)
        contexts.note(gone, 600 * MIB)
        other.kill()
    assert opened(path).of(gone) == 600 * MIB
    contexts.note(ME, 600 * MIB)
    assert contexts.of(gone) is None
    assert opened(path).of(gone) is None


def test_a_removed_file_is_written_again(tmp_path: Path) -> None:
    """While the scheduler runs."""
    path = tmp_path / "contexts.json"
    contexts = opened(path)
    contexts.restore()
    assert not path.exists()
    contexts.note(ME, 600 * MIB)
    path.unlink()
    contexts.restore()
    assert opened(path).of(ME) == 600 * MIB


@pytest.mark.parametrize("text", ["", "7", "[7]", '[["GPU-a", 1]]', '[["GPU-a", 1, 2, "x"]]', '{"a": 1}'])
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    """It is said with its path, and nothing of it counts."""
    path = tmp_path / "contexts.json"
    path.write_text(text)
    with capture_logs() as lines:
        contexts = opened(path)
    assert [(line["log_level"], line["path"]) for line in lines] == [("warning", str(path))]
    contexts.note(ME, 600 * MIB)
    assert opened(path).of(ME) == 600 * MIB


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    """It is said; what was measured counts all the same."""
    with capture_logs() as lines:
        contexts = opened(tmp_path / "gone" / "contexts.json")
        contexts.note(ME, 600 * MIB)
    assert contexts.of(ME) == 600 * MIB
    assert [line["log_level"] for line in lines] == ["warning"]

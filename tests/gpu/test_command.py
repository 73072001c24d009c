"""``python -m tests.gpu`` as a person starts it, on a simulated GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.conftest import SOURCE_ROOT
from tests.gpu import results

Simulated = Callable[..., dict[str, str]]


def run(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """From the root of the project."""
    command = [sys.executable, "-m", "tests.gpu", *arguments]
    return subprocess.run(
        command, env=environment, cwd=SOURCE_ROOT.parent, capture_output=True, text=True, check=False, timeout=100
    )


def test_table_in_pieces(simulated: Simulated, tmp_path: Path) -> None:
    """Two runs into one folder make one table, of the rows of both; what is not installed says so."""
    environment = simulated()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    folder = tmp_path / "out"
    for name in ("onnx", "ddp"):
        done = run(environment, "--only", name, "--output", str(folder), "--python", str(python))
        assert done.returncode == 0, done.stderr
        assert "Simulated GPU" in done.stdout
    table = (folder / "compatibility.md").read_text()
    assert "| onnxruntime-gpu | not installed: onnxruntime-gpu, onnx, numpy |" in table
    assert "| PyTorch DDP over two GPUs | not installed: torch, numpy |" in table
    assert results.read(folder / "compatibility.json").keys() == {"onnx", "ddp"}


def test_one_gpu_is_too_few(simulated: Simulated, tmp_path: Path) -> None:
    """A row that needs two GPUs says so where there is one."""
    package = tmp_path / "packages"
    for name in ("torch", "numpy"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    environment = simulated()
    environment["PYTHONPATH"] += f":{package}"
    done = run(environment, "--only", "fsdp", "--output", str(tmp_path / "out"))
    assert "| PyTorch FSDP over two GPUs | needs two GPUs |" in done.stdout, done.stderr
    assert done.returncode == 0


def test_no_gpu(simulated: Simulated, tmp_path: Path) -> None:
    """Where there is no GPU one line says so, and nothing is written."""
    environment = {**simulated(), "NVIDIA_VISIBLE_DEVICES": "void"}
    done = run(environment, "--only", "driver", "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.startswith("python -m tests.gpu: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()

"""The programs in docs/examples/, which the pages tell people to run."""

from __future__ import annotations

import subprocess
import sys

from tests.layout.tree import ROOT


def test_notebook() -> None:
    """It runs on a simulated GPU, says how long each round took, and finds its memory as it left it."""
    command = [sys.executable, "-m", "nvshare.ctl", "simulate", "--gpus", "1x1GiB/32MiB", "--"]
    program = [sys.executable, str(ROOT / "docs" / "examples" / "notebook.py"), "128", "0.05", "0", "2"]
    result = subprocess.run([*command, *program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["round 1", "round 2", "right"]

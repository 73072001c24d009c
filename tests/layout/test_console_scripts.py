"""Every command that the package installs can say what it does."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.layout.tree import ROOT

SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script: str) -> None:
    """``--help`` prints how to use it, to stdout, without complaint."""
    command = Path(sys.executable).with_name(script)
    result = subprocess.run([command, "--help"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "usage" in result.stdout.lower()
    assert not result.stderr

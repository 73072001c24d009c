"""Every command that the package installs can say what it does."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.layout.tree import ROOT, nobody

SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def test_help() -> None:
    """``--help`` prints how to use it, to stdout, without complaint."""
    started = {
        script: subprocess.Popen(
            [Path(sys.executable).with_name(script), "--help"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for script in SCRIPTS
    }

    def complaints() -> Iterator[str]:
        for script, process in started.items():
            said, complained = process.communicate(timeout=60)
            if process.returncode != 0 or complained or "usage" not in said.lower():
                yield f"{script} --help: status {process.returncode}, {complained or said!r}"

    nobody(complaints())

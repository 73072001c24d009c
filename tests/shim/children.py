"""Fresh processes under the library and the counting driver."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Children:
    """Starts programs in an environment."""

    environment: dict[str, str]

    def run(self, *command: str | Path, timeout: float = 60) -> str:
        """Runs a program to its end and returns its output; fails with its stderr when it fails."""
        result = subprocess.run(
            [str(part) for part in command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert result.returncode == 0, f"{command} ended with {result.returncode}\n{result.stdout}{result.stderr}"
        return result.stdout

    def run_python(self, name: str, *arguments: str, timeout: float = 60) -> str:
        """Runs one of ``programs/``."""
        return self.run(sys.executable, PROGRAMS / name, *arguments, timeout=timeout)

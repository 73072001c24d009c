"""Fresh processes under the library and the counting driver."""

from __future__ import annotations

import ast
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


def cases(name: str) -> list[str]:
    """The cases in one of ``programs/``: its functions of a LockServer that return nothing. Loads no driver."""
    tree = ast.parse((PROGRAMS / name).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if _signature(node) == "server: LockServer -> None"]


def _signature(function: ast.FunctionDef) -> str:
    return f"{ast.unparse(function.args)} -> {ast.unparse(function.returns) if function.returns else ''}"

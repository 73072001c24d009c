"""The tracked tree as text: what the layout rules look at."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nvshare"
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi", "layout.py")

_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that git has or would take, in a stable order; without git the test, or its module, is skipped."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed", allow_module_level=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(sorted(path for name in names if name and (path := ROOT / name).is_file()))


def below(folder: Path, *suffixes: str) -> list[Path]:
    """The tracked files of a folder that a person wrote, with one of these suffixes."""
    return [
        path
        for path in tracked()
        if path.is_relative_to(folder) and path.suffix in suffixes and not path.name.endswith(GENERATED)
    ]


def name(path: Path) -> str:
    """A file's name as a message shows it."""
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> str:
    """The dotted name under which a file of the package is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """The dotted names that a Python file imports; for ``from a import b`` both ``a`` and ``a.b``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                found.add(module)
                found.update(f"{module}.{alias.name}" for alias in names)
            case _:
                pass
    return found


def c_code(path: Path) -> str:
    """A C file without its comments and without what stands in quotes; line numbers stay."""
    return _NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())


def c_uses(path: Path, word: str) -> list[int]:
    """The lines on which C code calls a function or takes its address; ``word`` is a regular expression."""
    pattern = re.compile(rf"(?<![\w.>]){word}\s*\(|&{word}\b")
    return [number for number, line in enumerate(c_code(path).splitlines(), 1) if pattern.search(line)]

"""The tracked tree as text, each file read and parsed once: what the layout rules look at."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nvshare"
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi", "layout.py")

_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def nobody(offenders: Iterable[str]) -> None:
    """Fails if anybody breaks a rule, and names all who do, one a line."""
    if found := list(offenders):
        pytest.fail("\n".join([f"{len(found)} break this rule:", *found]), pytrace=False)


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that git has or would take, in a stable order; without git the test, or its module, is skipped."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed", allow_module_level=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(sorted(path for name in names if name and (path := ROOT / name).is_file()))


@cache
def below(folder: Path, *suffixes: str) -> tuple[Path, ...]:
    """The tracked files of a folder that a person wrote, with one of these suffixes."""
    return tuple(
        path
        for path in tracked()
        if path.suffix in suffixes and not path.name.endswith(GENERATED) and path.is_relative_to(folder)
    )


@cache
def text(path: Path) -> str:
    """What a file says."""
    return path.read_text()


@cache
def syntax(path: Path) -> ast.Module:
    """A Python file, parsed."""
    return ast.parse(text(path), str(path))


def name(path: Path) -> str:
    """A file's name as a message shows it."""
    return str(path.relative_to(ROOT))


def at(path: Path, line: int) -> str:
    """A line of a file as a message shows it."""
    return f"{name(path)}:{line}"


def line_of(path: Path, content: str, place: int) -> str:
    """The line of a file on which a character of its content is, as a message shows it."""
    return at(path, content.count("\n", 0, place) + 1)


@cache
def module_of(path: Path) -> str:
    """The dotted name under which a file of the package is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> dict[str, int]:
    """The dotted names that a Python file imports, with their lines; for ``from a import b`` both ``a`` and ``a.b``."""
    found: dict[str, int] = {}
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name: node.lineno for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module: node.lineno} | {f"{module}.{alias.name}": node.lineno for alias in names}
            case _:
                pass
    return found


@cache
def modules() -> dict[str, Path]:
    """The modules of the package that a person wrote, by the names under which they are imported."""
    return {module_of(path): path for path in below(PACKAGE, ".py")}


@cache
def own_imports(path: Path) -> dict[str, int]:
    """The modules of nvshare that a file imports, also within functions, with the lines.

    ``from package import module`` counts as the module alone; a package runs its ``__init__`` first, which imports
    nothing of what is below it.
    """
    found: dict[str, int] = {}
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name: node.lineno for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                members = {alias.name: f"{module}.{alias.name}" for alias in names}
                found |= {member if member in modules() else module: node.lineno for member in members.values()}
            case _:
                pass
    return {module: line for module, line in found.items() if module in modules()}


@cache
def includes(path: Path) -> dict[str, int]:
    """The headers that a C file includes, as it spells them, with their lines."""
    pattern = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
    lines = enumerate(text(path).splitlines(), 1)
    return {match[1]: number for number, line in lines if (match := pattern.match(line))}


@cache
def c_code(path: Path) -> str:
    """A C file without its comments and without what stands in quotes; line numbers stay."""
    return _NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), text(path))


def c_uses(path: Path, word: str) -> list[int]:
    """The lines on which C code calls a function or takes its address; ``word`` is a regular expression."""
    pattern = re.compile(rf"(?<![\w.>]){word}\s*\(|&{word}\b")
    return [number for number, line in enumerate(c_code(path).splitlines(), 1) if pattern.search(line)]


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle of a graph, as a line that says who leads to whom; none if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" -> ".join(reversed(error.args[1]))]
    return []

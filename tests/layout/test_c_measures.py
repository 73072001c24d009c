"""What is measured of the C code: that calls go one way, and how many ways lead through a function."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import lizard  # type: ignore[import-untyped]
import pytest

import build_native
from tests.layout.tree import PACKAGE, below, name

TARGET = build_native.TARGETS[platform.machine()]
LIBRARIES = [library for library in build_native.LIBRARIES if len(library.sources()) > 1]
# Tables of what programs call: a row names a function, and nobody calls it from there.
TABLES = {
    "shim/csrc/driver/driver": r"nvs_hook_\w+",
    "shim/csrc/driver/nccl": r"nvs_nccl_nccl\w+",
    "shim/csrc/driver/nvml": r"nvs_hook_nvml\w+",
    "simgpu/csrc/cuda/entry/entries": r"sim_cu\w+",
}

MOST_WAYS = 15


def unit_of(source: Path) -> str:
    """A C file, and the assembler beside it that has its name."""
    return source.relative_to(PACKAGE).with_suffix("").as_posix()


def symbols(path: Path, which: str) -> set[str]:
    """The symbols that an object file gives to others, or wants of them."""
    listed = subprocess.run(
        ["nm", "--extern-only", which, "--format=posix", path], check=True, capture_output=True, text=True
    )
    return {line.split()[0] for line in listed.stdout.splitlines()}


def calls(library: build_native.Library) -> dict[str, set[str]]:
    """Every unit of a library, with the units whose functions it calls, or whose data it reads."""
    build_native.build(TARGET, (library,))
    objects = [(unit_of(source), build_native.object_of(TARGET, library, source)) for source in library.sources()]
    owners = {symbol: unit for unit, path in objects for symbol in symbols(path, "--defined-only")}
    found: dict[str, set[str]] = {unit: set() for unit, _ in objects}
    for unit, path in objects:
        wanted = {symbol for symbol in symbols(path, "--undefined-only") if symbol in owners}
        table = re.compile(TABLES.get(unit, "$^"))
        found[unit] |= {owners[symbol] for symbol in wanted if not table.fullmatch(symbol)} - {unit}
    return found


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.file_name)
def test_no_circle_of_calls(library: build_native.Library) -> None:
    """No file calls itself by way of others: taking away what calls nothing, again and again, leaves nothing."""
    left = calls(library)
    while leaves := {unit for unit, called in left.items() if not called & left.keys()}:
        left = {unit: called for unit, called in left.items() if unit not in leaves}
    assert not left


def test_tables_exist() -> None:
    """The list of tables names none that is gone."""
    assert not {unit for unit in TABLES if not (PACKAGE / f"{unit}.c").is_file()}


def test_functions_are_simple() -> None:
    """No function has more ways through it than one head holds, as McCabe counts them."""
    found = {
        f"{name(path)}: {function.name}": function.cyclomatic_complexity
        for path in below(PACKAGE, ".c", ".h")
        for function in lizard.analyze_file(str(path)).function_list
    }
    assert found
    assert not {function: ways for function, ways in found.items() if ways > MOST_WAYS}

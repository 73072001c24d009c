"""Names and sizes of files, and what no file may say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.layout.tree import GENERATED, ROOT, below, name, tracked

CODE = [
    path for folder in ("src", "tests", "bench", "protos") for path in below(ROOT / folder, ".py", ".c", ".h", ".S")
]
NAMELESS = {"utils", "util", "common", "helpers", "helper", "manager", "managers", "base", "misc"}
LONGEST = 400
# Tables: one row a fact, nothing to understand beyond a row.
TABLES = {
    "src/nvshare/cuda/abi.h",
}
MACHINE = re.compile(rf"{re.escape(str(ROOT))}\b|{re.escape(str(Path.home()))}/\w")


@pytest.mark.parametrize("path", CODE, ids=name)
def test_no_file_is_long(path: Path) -> None:
    """A file that needs more than 400 lines has more than one purpose, unless it is a table."""
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST or name(path) in TABLES


def test_tables_exist() -> None:
    """The list of long files names no file that is gone or has become short."""
    assert all(len((ROOT / table).read_text().splitlines()) > LONGEST for table in TABLES)


@pytest.mark.parametrize("path", CODE, ids=name)
def test_names_say_what_is_inside(path: Path) -> None:
    """No file or folder is called after nothing in particular."""
    words = {word for part in path.relative_to(ROOT).with_suffix("").parts for word in part.lower().split("_")}
    assert not words & NAMELESS


def test_no_path_of_a_machine() -> None:
    """What is tracked means the same everywhere: no file names this person's home or this checkout."""
    found = [
        f"{name(path)}: {match[0]}"
        for path in tracked()
        if not path.name.endswith(GENERATED) and path != Path(__file__).resolve()
        for match in MACHINE.finditer(path.read_bytes().decode(errors="replace"))
    ]
    assert not found


def test_nothing_left_to_do() -> None:
    """What is not finished is not in the tree."""
    marks = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    assert not [name(path) for path in CODE if marks.search(path.read_text())]

"""Names and sizes of files, and what no file may say."""

from __future__ import annotations

import re
from pathlib import Path

from tests.layout.tree import GENERATED, ROOT, below, line_of, name, nobody, text, tracked

CODE = [
    path for folder in ("src", "tests", "bench", "protos") for path in below(ROOT / folder, ".py", ".c", ".h", ".S")
]
NAMELESS = {"utils", "util", "common", "helpers", "helper", "manager", "managers", "base", "misc"}
LONGEST = 400
# Tables: one row a fact, nothing to understand beyond a row.
TABLES = {ROOT / "src" / "nvshare" / "cuda" / "abi.h"}
MACHINE = re.compile(rf"{re.escape(str(ROOT))}\b|{re.escape(str(Path.home()))}/\w")
LEFT_TO_DO = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def lines(path: Path) -> int:
    """How many a file has."""
    return text(path).count("\n")


def test_no_file_is_long() -> None:
    """A file that needs more than 400 lines has more than one purpose, unless it is a table."""
    nobody(f"{name(path)}: {lines(path)} lines" for path in CODE if lines(path) > LONGEST and path not in TABLES)


def test_tables_exist() -> None:
    """The list of long files names no file that is gone or has become short."""
    nobody(name(path) for path in TABLES if path not in CODE or lines(path) <= LONGEST)


def test_every_file_is_text() -> None:
    """What a person wrote or generated; nothing that a program left in the folder where it was tried."""
    nobody(name(path) for path in tracked() if b"\0" in path.read_bytes())


def test_names_say_what_is_inside() -> None:
    """No file or folder is called after nothing in particular."""

    def words(path: Path) -> set[str]:
        return {word for part in path.relative_to(ROOT).with_suffix("").parts for word in part.lower().split("_")}

    nobody(name(path) for path in CODE if words(path) & NAMELESS)


def test_no_path_of_a_machine() -> None:
    """What is tracked means the same everywhere: no file names this person's home or this checkout."""
    nobody(
        f"{line_of(path, content, match.start())}: {match[0]}"
        for path in tracked()
        if not path.name.endswith(GENERATED) and path != Path(__file__).resolve()
        for content in [path.read_bytes().decode(errors="replace")]
        for match in MACHINE.finditer(content)
    )


def test_nothing_left_to_do() -> None:
    """What is not finished is not in the tree."""
    nobody(
        f"{line_of(path, text(path), match.start())}: {match[0]}"
        for path in CODE
        for match in LEFT_TO_DO.finditer(text(path))
    )

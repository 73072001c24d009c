"""What was found, as JSON and as a table. Nothing here runs anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COLUMNS = {
    "alone": "alone, against bare",
    "turns": "two in turns",
    "swapped": "two, swapped",
    "doctor": "doctor's verdict",
    "rate": "rate against bare",
}
"""The title of each."""
FEWEST_SWAPS = 20
LONGEST_REASON = 160


@dataclass(frozen=True, slots=True)
class Cell:
    """What a column says of a row."""

    text: str
    good: bool | None = None
    """None: it could not be found out, or is no question of good or bad."""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """One row, as it was found."""

    title: str
    machine: str
    """GPU, driver and library, in words."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the packages that the row needs."""
    absent: str = ""
    """Why it could not be tried: then there are no cells."""
    cells: Mapping[str, Cell] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Nothing of it is known to be wrong."""
        return all(cell.good is not False for cell in self.cells.values())


Results = dict[str, Found]
"""By the names of rows."""


def reason(text: str) -> str:
    """A cell's text for what failed: its first line and its last, short, on one line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()] or ["?"]
    short = [line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON] + " ..." for line in lines]
    return short[0] if len(short) == 1 else f"{short[0]} {short[-1]}"


def same(digests: Iterable[str], reference: str) -> bool:
    """Whether all results are those of the run without nvshare, and there are some."""
    found = list(digests)
    return bool(found) and bool(reference) and all(digest == reference for digest in found)


def verdict(digests: Iterable[str], reference: str, seen: str = "", enough: bool = True) -> Cell:
    """A cell that compares; ``seen`` says what happened meanwhile, ``enough`` that it was what should."""
    found = list(digests)
    right = same(found, reference)
    text = "equal" if right else "DIFFERS"
    figures = {"digests": found, "reference": reference}
    return Cell(f"{text}, {seen}" if seen else text, right and enough, figures)


def line(found: Found) -> str:
    """A row of the table."""
    cells = [found.absent, *[""] * (len(COLUMNS) - 1)]
    if not found.absent:
        cells = [found.cells[column].text if column in found.cells else "" for column in COLUMNS]
    return f"| {' | '.join(cell.replace('|', '/') for cell in (found.title, *cells))} |"


def table(results: Results, order: Iterable[str]) -> str:
    """Markdown, in this order; what was not tried comes last."""
    known = [name for name in order if name in results]
    names = known + [name for name in results if name not in known]
    names.sort(key=lambda name: bool(results[name].absent))
    head = [f"| {' | '.join(['program', *COLUMNS.values()])} |", "|" + "---|" * (len(COLUMNS) + 1)]
    return "\n".join([*head, *(line(results[name]) for name in names)]) + "\n"


def read(path: Path) -> Results:
    """What ``write`` wrote. ValueError: it is something else."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Found(**{**row, "cells": {column: Cell(**cell) for column, cell in row["cells"].items()}})
            for name, row in rows.items()
        }
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} has no results: {error}") from error


def write(results: Results, path: Path) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({name: asdict(found) for name, found in results.items()}, indent=1) + "\n", "utf-8")
    new.replace(path)


def merged(parts: Iterable[Results]) -> Results:
    """One for all: of a row that several have, the last that was tried, else the last."""
    whole: Results = {}
    for part in parts:
        for name, found in part.items():
            if name not in whole or not found.absent or whole[name].absent:
                whole[name] = found
    return whole

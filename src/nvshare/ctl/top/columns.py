"""Rows of text in columns, one line each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

_GAP = 2
_MORE = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; the last one of a table gets what room is left."""

    name: str
    right: bool = False
    most: int = 1000
    """Columns of the terminal that it takes at most."""
    marked: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """A line of names, and a line for each row."""
    names = [Text(column.name, "bold underline" if column.marked else "dim") for column in columns]
    lines = [names, *rows]
    widths = [
        min(max(cell_len(line[place].plain) for line in lines), column.most) for place, column in enumerate(columns)
    ]
    before = sum(widths[:-1]) + _GAP * (len(widths) - 1)
    widths[-1] = max(width - before, 1)
    return [_line(columns, line, widths) for line in lines]


def _line(columns: Sequence[Column], line: Sequence[Text], widths: Sequence[int]) -> Text:
    shown = Text(no_wrap=True, overflow="crop")
    for place, (column, cell, width) in enumerate(zip(columns, line, widths, strict=True)):
        if place:
            shown.append(" " * _GAP)
        room = width - cell_len(cell.plain)
        if room >= 0 and column.right:
            shown.append(" " * room)
        shown.append_text(cell if room >= 0 else _cut(cell, width))
        if room > 0 and not column.right and place < len(widths) - 1:
            shown.append(" " * room)
    return shown


def _cut(cell: Text, width: int) -> Text:
    return Text(set_cell_size(cell.plain, width - 1) + _MORE, cell.style)

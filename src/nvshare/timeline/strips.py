"""A timeline in a terminal: bars of characters over an axis of seconds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.text import Text

from nvshare.timeline.chart import tick_seconds

LABEL = 7
"""Characters for a row's name."""
COLORS = ("cyan", "dark_orange", "dodger_blue1", "orchid")


def color(number: int) -> str:
    """That of a row; see ``chart.Row``."""
    return COLORS[number % len(COLORS)]


def axis(length: float, width: int, label_width: int = LABEL) -> Text:
    """Seconds under the strips."""
    cells = _cells(width, label_width)
    line = [" "] * (cells + 1)
    step = tick_seconds(length, max(cells // 10, 2))
    number = 0
    while length and number * step <= length:
        label = f"{number * step:g}s"
        at = round(number * step / length * cells)
        if at + len(label) <= len(line):
            line[at : at + len(label)] = label
        number += 1
    return Text(" " * label_width + "".join(line), style="dim")


def _cells(width: int, label_width: int) -> int:
    return max(width - label_width - 2, 20)


def strip(
    label: str,
    held: Iterable[tuple[float, float]],
    moved: Iterable[tuple[float, float]],
    now: float,
    length: float,
    width: int,
    style: str,
    label_width: int = LABEL,
) -> Text:
    """A bar where the lock was held, shaded where memory moved, dots where neither was, nothing after ``now``.

    On an axis of ``length`` seconds.
    """
    cells = _cells(width, label_width)
    shares = [0.0, *coverage(held, 0.0, length, cells), 0.0]
    moving = coverage(moved, 0.0, length, cells)
    past = round(min(now / length, 1.0) * cells) if length else 0
    text = Text(f"{label:<{label_width}}", style=style, no_wrap=True)
    marks = "".join(
        _mark(before, share, after, moves) if cell < past or share > 0 else " "
        for cell, (before, share, after, moves) in enumerate(zip(shares, shares[1:], shares[2:], moving, strict=False))
    )
    for run_style, run in groupby(marks, key=lambda mark: "dim" if mark == "·" else style):
        text.append("".join(run), style=run_style)
    return text


def _mark(before: float, share: float, after: float, moving: float) -> str:
    """The sign for a cell of which this share is covered, between two neighbours; ``moving`` is the share of moves."""
    if share >= 0.75:
        return "█"
    if share >= 0.25:
        return "▐" if after > before else "▌"
    return "░" if moving >= 0.25 else "·"


def coverage(held: Iterable[tuple[float, float]], start: float, end: float, cells: int) -> list[float]:
    """Which share of each of ``cells`` equal parts of ``start`` to ``end`` the intervals cover, 0 to 1."""
    shares = [0.0] * cells
    width = (end - start) / cells
    if width <= 0:
        return shares
    for left, right in held:
        first = max(int((left - start) / width), 0)
        last = min(int((right - start) / width), cells - 1)
        for cell in range(first, last + 1):
            low, high = start + cell * width, start + (cell + 1) * width
            shares[cell] += max(min(right, high) - max(left, low), 0) / width
    return [min(share, 1.0) for share in shares]

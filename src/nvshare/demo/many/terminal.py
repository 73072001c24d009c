"""Many programs in the terminal: a sign for each while they run, and at the end how many were in which state when."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from nvshare import display
from nvshare.demo.many.report import Report
from nvshare.timeline import strips

_SIGNS = {
    "holding": "█",
    "leaving": "▓",
    "unresponsive": "!",
    "waiting": "▒",
    "waking": "░",
    "idle": "o",
    "asleep": "·",
    "ended": "x",
}
_LEVELS = " ▁▂▃▄▅▆▇█"
_SHOWN = (("asleep",), ("waking",), ("waiting",), ("holding", "leaving"))
_LABEL = 16
"""Characters for a row's name and its figure."""


def live(states: Sequence[str], counted: str, width: int) -> RenderableType:
    """A sign for each program, and how many are in which state."""
    signs = Text()
    for place, state in enumerate(states):
        if place and place % max((width - 4) // 2, 1) == 0:
            signs.append("\n")
        signs.append(f"{_SIGNS.get(state, ' ')} ", style=display.STATE_STYLES.get(state, "dim"))
    names = (state for state in _SIGNS if state in states)
    legend = Text("   ".join(f"{_SIGNS[state]} {state}" for state in names), style="dim")
    return Group(Text(), signs, legend, Text(counted))


def timeline(report: Report, width: int) -> RenderableType:
    """For each state a row: how many programs were in it when, as a part of the most that were, which its name says."""
    cells = max(width - _LABEL - 2, 20)
    rows: list[RenderableType] = []
    for states in _SHOWN:
        sums = [0.0] * cells
        for program in report.programs:
            covered = strips.coverage(report.since_begin(program, *states), 0.0, report.length, cells)
            sums = [before + share for before, share in zip(sums, covered, strict=True)]
        most = max(sums)
        marks = "".join(_LEVELS[_level(each, most)] for each in sums)
        label = f"{states[0]:<9}{most:>4.0f}   " if most >= 0.95 else f"{states[0]:<9}{most:>4.1f}   "
        rows.append(Text(f"{label}{marks}", style=display.STATE_STYLES[states[0]], no_wrap=True))
    return Group(*rows, strips.axis(report.length, width, _LABEL))


def _level(value: float, most: float) -> int:
    """Nothing is 0, and what is little is not nothing."""
    return -(-round(value * 1000) * (len(_LEVELS) - 1) // max(round(most * 1000), 1))

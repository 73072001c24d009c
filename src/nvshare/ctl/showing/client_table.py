"""The clients of a device, a line each, with as many columns as a terminal has room for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from nvshare import display

_GAP = 2
_LEAST_COMMAND = 14
"""Columns that COMMAND gets at least: figures are left out before it has fewer."""
_LEAST_BESIDE_NAME = 8
"""The same in a narrow terminal where a name tells the clients apart."""
_LEAST_OF_MANY = 20
"""The same in a wide terminal."""
_USUAL_COMMAND = 40
"""Columns up to which a command goes before more words on a wait."""
_NAME = 16
"""Columns of a name in a narrow terminal."""
_WIDE = 110
"""Columns of a terminal in which names have room beside everything else."""


@dataclass(frozen=True, slots=True)
class Row:
    """One client."""

    pid: str
    name: str
    """The one that tells it apart from others."""
    container: str
    """The one by which its terms are set, if not that."""
    state: str
    lasts: str
    """How long it has been in that state, where that is to be said."""
    figures: tuple[str, ...]
    """One for each of the table's columns of figures."""
    waits: tuple[str, ...]
    """What it waits for, in fewer and fewer words; none: it does not wait."""
    command: str

    @property
    def state_words(self) -> str:
        """What STATE has."""
        return f"{self.state} {self.lasts}".rstrip()

    def called(self, width: int) -> str:
        """What NAME has in a terminal of so many columns."""
        return self.name or (self.container if width >= _WIDE else "")


@dataclass(frozen=True, slots=True)
class ClientTable:
    """What rich draws."""

    figures: Sequence[str]
    """The names of the columns of figures."""
    rows: Sequence[Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names, waits, shown = self._widths(options.max_width)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", expand=True)
        table.add_column("PID", justify="right", no_wrap=True)
        if names:
            table.add_column("NAME", no_wrap=True, width=names)
        table.add_column("STATE", no_wrap=True)
        for name in self.figures[:shown]:
            table.add_column(name, justify="right", no_wrap=True)
        if waits:
            table.add_column("WAITS", no_wrap=True, width=waits)
        table.add_column("COMMAND", ratio=1, no_wrap=True)
        for row in self.rows:
            state = Text(row.state_words, display.STATE_STYLES.get(row.state, ""))
            named = [_shortened(row.called(options.max_width))] if names else []
            words = [Text(_fitting(row.waits, waits), "yellow")] if waits else []
            table.add_row(row.pid, *named, state, *row.figures[:shown], *words, _shortened(row.command))
        yield table

    def _widths(self, width: int) -> tuple[int, int, int]:
        """Of NAME and WAITS, 0 where they are left out, and how many figures there are."""
        states = _widest("STATE", (row.state_words for row in self.rows))
        always = _widest("PID", (row.pid for row in self.rows)) + states
        called = [row.called(width) for row in self.rows]
        names = _widest("NAME", called) if any(called) else 0
        names = min(names, width // 4 if width >= _WIDE else _NAME)
        waiters = [row.waits for row in self.rows if row.waits]
        usual, least, most = (
            _widest("WAITS", (words[place] for words in waiters)) if waiters else 0 for place in (1, -1, 0)
        )
        room = width - always - 2 * _GAP
        choices = [
            (name, wait, room - _with_gap(name) - _with_gap(wait) - _least_command(width, name))
            for name, wait in ((names, usual), (names, least), (0, usual), (0, least), (0, 0))
        ]
        names, waits, left = next((choice for choice in choices if choice[2] >= 0), choices[-1])
        shown = 0
        for place, name in enumerate(self.figures):
            needed = _widest(name, (row.figures[place] for row in self.rows)) + _GAP
            if left < needed:
                break
            left -= needed
            shown += 1
        left -= min(_USUAL_COMMAND, max(len(row.command) for row in self.rows)) - _LEAST_BESIDE_NAME
        return names, min(most, waits + max(0, left)) if waits else 0, shown


def _widest(name: str, cells: Iterable[str]) -> int:
    return max(len(name), *map(len, cells))


def _least_command(width: int, name: int) -> int:
    if width >= _WIDE:
        return _LEAST_OF_MANY
    return _LEAST_BESIDE_NAME if name else _LEAST_COMMAND


def _with_gap(width: int) -> int:
    return width + _GAP if width else 0


def _fitting(words: Sequence[str], width: int) -> str:
    """The most words that there is room for."""
    return next((each for each in words if len(each) <= width), words[-1] if words else "")


def _shortened(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")

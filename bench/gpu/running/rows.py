"""The table of a benchmark: printed row by row, and written whole after each row, with the figures behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = "| experiment | what | measured | goal | seen |\n|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows so far; ``folder`` gets ``NAME.md`` and ``NAME.json``."""

    folder: Path
    name: str
    _rows: list[str] = field(default_factory=list)
    _figures: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> None:
        """Prints the head."""
        self.folder.mkdir(parents=True, exist_ok=True)
        print(HEAD, flush=True)

    def row(self, experiment: str, what: str, measured: str, goal: str, seen: str, figures: Mapping[str, Any]) -> None:
        """One more."""
        cells = (experiment, what, measured, goal, seen)
        self._rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        self._figures.append({"experiment": experiment, "what": what, **figures})
        print(self._rows[-1], flush=True)
        (self.folder / f"{self.name}.md").write_text("\n".join([HEAD, *self._rows]) + "\n", encoding="utf-8")
        (self.folder / f"{self.name}.json").write_text(json.dumps(self._figures, indent=1) + "\n", encoding="utf-8")

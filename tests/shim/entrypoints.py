"""The list of the driver's entry points, and the table of hooks, as the tests read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "nvshare"
LIST = PACKAGE / "cuda" / "entrypoints.tsv"
TABLE = PACKAGE / "shim" / "csrc" / "hooks.def"
GATED = '#include "hooks/gated.inc"'


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """One exported symbol of the driver."""

    kind: str
    base: str
    since: int
    variant: str
    symbol: str
    parameters: tuple[str, ...]

    @property
    def per_thread(self) -> bool:
        """NULL means the thread's own default stream."""
        return self.variant != "default"

    @property
    def gated(self) -> bool:
        """It puts work into a stream."""
        return self.kind.startswith("GATE-") or self.kind == "TRACK-STREAMOP"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of hooks.def; ``arguments`` and ``stream``, a C expression, are those of a GATE line, else empty."""

    macro: str
    symbol: str
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    stream: str


def split_parameters(text: str) -> tuple[str, ...]:
    """The parameters of a C declaration without their names, in one spelling."""
    if text.strip() in ("", "void"):
        return ()
    return tuple(_spelling(part) for part in text.split(","))


def parameter_names(text: str) -> tuple[str, ...]:
    """The names of the parameters of a C declaration."""
    if text.strip() in ("", "void"):
        return ()
    return tuple(re.findall(r"(\w+)\s*(?:,|$)", text))


def _spelling(parameter: str) -> str:
    without_name = re.sub(r"\w+\s*$", "", parameter.strip())
    return " ".join(without_name.replace("*", " * ").split())


def entry_points() -> list[EntryPoint]:
    """Every row of the list."""
    rows = [line.split("\t") for line in LIST.read_text().splitlines()[1:]]
    return [
        EntryPoint(kind, base, int(since), variant, symbol, split_parameters(signature.strip()[1:-1]))
        for kind, base, since, variant, symbol, signature in rows
    ]


def raw_parameters() -> dict[str, str]:
    """The parameters of each symbol as the list spells them, without parentheses."""
    rows = [line.split("\t") for line in LIST.read_text().splitlines()[1:]]
    return {row[4]: row[5].strip()[1:-1] or "void" for row in rows}


def table() -> list[Row]:
    """Every line of hooks.def and of the generated file that it includes."""
    text = TABLE.read_text()
    assert GATED in text
    text = text.replace(GATED, (TABLE.parent / "hooks" / "gated.inc").read_text())
    pattern = re.compile(r"^(GATE|HOOK|CALL)\((\w+), \((.*?)\)(?:, \((.*?)\), (.*))?\)$", re.MULTILINE)
    return [
        Row(m[1], m[2], split_parameters(m[3]), parameter_names(m[3]), parameter_names(m[4] or ""), m[5] or "")
        for m in pattern.finditer(text)
    ]

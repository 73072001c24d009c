"""The list of the driver's entry points, and the table of hooks, as the tests read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nvshare.cuda import entrypoints
from nvshare.cuda.entrypoints import EntryPoint

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "nvshare"
TABLE = PACKAGE / "shim" / "csrc" / "hooks.def"
GENERATED = ("gated.inc", "passed.inc")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of hooks.def; ``stream``, a C expression, is that of GATE and COPY; a HOOK line has no ``arguments``."""

    macro: str
    symbol: str
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    stream: str
    operands: str
    """Of a COPY or BYTES line: whose memory is used, a C expression."""


def split_parameters(text: str) -> tuple[str, ...]:
    """The parameters of a C declaration without their names, in one spelling."""
    if text.strip() in ("", "void"):
        return ()
    return tuple(_spelling(re.sub(r"\w+\s*$", "", part)) for part in text.split(","))


def parameter_names(text: str) -> tuple[str, ...]:
    """The names of the parameters of a C declaration."""
    if text.strip() in ("", "void"):
        return ()
    return tuple(re.findall(r"(\w+)\s*(?:,|$)", text))


def _spelling(written: str) -> str:
    return " ".join(written.replace("*", " * ").split())


def entry_points() -> list[EntryPoint]:
    """Every row of the list."""
    return entrypoints.parse(entrypoints.LIST.read_text())


def is_gated(point: EntryPoint) -> bool:
    """It puts work into a stream; written here again, because the generator of the hooks is what is tested."""
    return point.kind.startswith("GATE-") or point.kind == "TRACK-STREAMOP"


def types_of(point: EntryPoint) -> tuple[str, ...]:
    """The parameters of an entry point without their names, in the spelling of ``split_parameters``."""
    return tuple(_spelling(parameter.type) for parameter in point.parameters)


def table() -> list[Row]:
    """Every line of hooks.def and of the generated files that it includes; ``bodies`` has those of BODY."""
    text = TABLE.read_text()
    for name in GENERATED:
        include = f'#include "hooks/{name}"'
        assert include in text
        text = text.replace(include, (TABLE.parent / "hooks" / name).read_text())
    gated = r"(?:, \((.*?)\)(?:, (.*?)(?:, ((?:of|OF)_.*?)(?:, \w+, \w+)?)?)?)?"
    pattern = re.compile(
        rf"^(GATE|COPY|BYTES|BYTES_ASYNC|LOOK|HOOK|PASS|FREE)\((\w+), \((.*?)\){gated}\)$", re.MULTILINE
    )
    return [
        Row(
            m[1],
            m[2],
            split_parameters(m[3]),
            parameter_names(m[3]),
            parameter_names(m[4] or ""),
            m[5] or "",
            m[6] or "",
        )
        for m in pattern.finditer(text)
    ]


def bodies() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Of what passes the door before a body of ours: the parameters' types, and the arguments."""
    text = (TABLE.parent / "hooks" / "passed.inc").read_text()
    pattern = re.compile(
        r"^BODY\((\w+), \((.*?)\), \((.*?)\), (?:NULL|(?:[\w.>-]+ == \w+ \? NULL : )?\".*\")\)$", re.MULTILINE
    )
    return {m[1]: (split_parameters(m[2]), parameter_names(m[3])) for m in pattern.finditer(text)}


def nccl_calls() -> list[str]:
    """The functions of NCCL that are replaced."""
    return re.findall(r"CALL\((nccl\w+)", (TABLE.parent / "driver" / "nccl.h").read_text())

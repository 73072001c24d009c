"""Writes ``gated.inc``, the GATE lines of ``hooks.def``, from ``cuda/entrypoints.tsv``.

A symbol that puts work into a stream gets a line here, unless ``hooks.def`` has a HOOK line for it: then its body is
written by hand. The stream is the parameter of type CUstream, or that of a launch configuration, or else the default
stream.

Run ``make generate`` after changing either of the two; a test compares the committed file with ``generate()``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
HOOKS = HERE.parent / "hooks.def"
ENTRYPOINTS = HERE.parents[2] / "cuda" / "entrypoints.tsv"
HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Made by generate.py from entrypoints.tsv and hooks.def. Not edited. */
"""


@dataclass(frozen=True, slots=True)
class Gated:
    """An entry point that puts work into a stream; ``parameters`` are pairs of type and name."""

    symbol: str
    signature: str
    parameters: tuple[tuple[str, str], ...]
    per_thread: bool

    def stream(self) -> str:
        """The C expression of the stream that the work goes to, in which NULL is the legacy default stream."""
        for kind, name in self.parameters:
            if kind == "CUstream":
                return self._of_thread(name)
            if kind == "const CUlaunchConfig *":
                return self._of_thread(f"{name} ? {name}->stream : NULL")
        return "CU_STREAM_PER_THREAD" if self.per_thread else "NULL"

    def _of_thread(self, stream: str) -> str:
        return f"NVS_PER_THREAD({stream})" if self.per_thread else stream

    def line(self) -> str:
        """The line of ``gated.inc``."""
        arguments = ", ".join(name for _, name in self.parameters)
        return f"GATE({self.symbol}, {self.signature}, ({arguments}), {self.stream()})"


def parse_parameter(text: str) -> tuple[str, str]:
    """Splits ``const char *name`` into its type and name; ValueError when it is none."""
    match = re.fullmatch(r"(.*?[\s*])(\w+)", text.strip())
    if match is None:
        raise ValueError(f"not a parameter: {text}")
    return match[1].strip(), match[2]


def parse(entrypoints: str) -> list[Gated]:
    """The gated symbols of the list, in its order."""
    found = []
    for line in entrypoints.splitlines()[1:]:
        kind, _, _, variant, symbol, signature = line.split("\t")
        if kind.startswith("GATE-") or kind == "TRACK-STREAMOP":
            parameters = tuple(parse_parameter(part) for part in signature[1:-1].split(","))
            found.append(Gated(symbol, signature, parameters, variant != "default"))
    return found


def generate() -> dict[Path, str]:
    """The generated file and what it must contain."""
    by_hand = set(re.findall(r"^HOOK\((\w+),", HOOKS.read_text(), re.MULTILINE))
    lines = [gated.line() for gated in parse(ENTRYPOINTS.read_text()) if gated.symbol not in by_hand]
    return {HERE / "gated.inc": HEAD + "\n".join(lines) + "\n"}


if __name__ == "__main__":
    for path, content in generate().items():
        path.write_text(content)

"""The rows of ``entrypoints.tsv``, the list of the driver's entry points.

Pure. What a class or a type means for a generated file, the generator of that file says. The wheel carries
no generators: their folders have no ``__init__.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("entrypoints.tsv")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a signature."""

    type: str
    """As the list writes it, for example ``const char **``."""
    name: str


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """One exported symbol of the driver."""

    kind: str
    """Its class: what the function does, as far as nvshare cares, for example ``GATE-COPY``."""
    base: str
    """The name under which cuGetProcAddress finds it."""
    since: int
    """The first CUDA version that has it, as the driver counts: 12040 is 12.4."""
    variant: str
    """``default``, or the suffix of a form for which NULL means the thread's own default stream."""
    symbol: str
    signature: str
    """The parameters in parentheses, as the list writes them."""
    parameters: tuple[Parameter, ...]

    @property
    def per_thread(self) -> bool:
        """NULL means the thread's own default stream."""
        return self.variant != "default"


def parse(text: str) -> list[EntryPoint]:
    """The rows of the list, in its order; ValueError when one is not as it should be."""
    entries = []
    for line in text.splitlines()[1:]:
        kind, base, since, variant, symbol, signature = line.split("\t")
        parameters = _parse_signature(signature)
        entries.append(EntryPoint(kind, base, int(since), variant, symbol, signature, parameters))
    return entries


def _parse_signature(signature: str) -> tuple[Parameter, ...]:
    if signature == "(void)":
        return ()
    return tuple(_parse_parameter(part.strip()) for part in signature[1:-1].split(","))


def _parse_parameter(text: str) -> Parameter:
    match = re.fullmatch(r"(.*?[\s*])(\w+)", text)
    if match is None:
        raise ValueError(f"not a parameter: {text}")
    return Parameter(match[1].strip(), match[2])

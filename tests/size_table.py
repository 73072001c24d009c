"""The table of what a size means, which the tests of every reader of sizes use."""

from __future__ import annotations

from pathlib import Path


def size_table() -> list[tuple[str, str]]:
    """Each text, and its bytes or what is wrong with it."""
    lines = Path(__file__).with_name("sizes.tsv").read_text(encoding="utf-8").splitlines()
    return [(text, meaning) for text, meaning in (line.split("\t") for line in lines if not line.startswith("#"))]

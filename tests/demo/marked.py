"""Which processes belong to a demo."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def marked(mark: str) -> list[int]:
    """The processes with this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found

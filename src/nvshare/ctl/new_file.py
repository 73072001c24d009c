"""Files of others' folders that a command writes: whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_beside(path: Path, text: str) -> Iterator[Path]:
    """A new file beside ``path``, for the caller to rename; what was not renamed is gone in the end. OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text, encoding="utf-8")
        yield new
    finally:
        new.unlink(missing_ok=True)

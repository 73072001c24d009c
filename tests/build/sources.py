"""What git would carry, copied: builds in these tests begin from nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.layout.tree import ROOT, tracked


def copy_tracked(folder: Path) -> None:
    """Copies every tracked file into ``folder``."""
    for path in tracked():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)


def clean_environment() -> dict[str, str]:
    """An environment that leads to no other copy of nvshare."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

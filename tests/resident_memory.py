"""What programs that serve may have in memory, where their modules are compiled, as they are in the image."""

from __future__ import annotations

from pathlib import Path

LIMIT_BYTES = 64_000_000
"""Resident, with the pages of libraries that other processes may have there too."""


def keeping_bytecode(folder: Path) -> dict[str, str]:
    """Variables of a program that finds its modules compiled when it is started a second time.

    What compiles them leaves more memory behind than they need.
    """
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}

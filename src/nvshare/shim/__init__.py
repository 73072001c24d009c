"""The library that is loaded into programs: where its file is. Its sources are in ``csrc/``."""

from __future__ import annotations

import platform
from pathlib import Path

from nvshare import paths


def library_path(machine: str | None = None) -> Path:
    """The file of libnvshare.so for a machine (``x86_64``, ``aarch64``), by default this one.

    Raises FileNotFoundError when this installation has none for it.
    """
    library = Path(__file__).parent / "lib" / (machine or platform.machine()) / paths.LIBRARY_NAME
    if not library.is_file():
        raise FileNotFoundError(f"this installation of nvshare has no library at {library}")
    return library

"""The library that is loaded into programs: where its file is, and what loads it. Its sources are in ``csrc/``."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from nvshare import paths


def library_path(machine: str | None = None) -> Path:
    """The file of libnvshare.so for a machine (``x86_64``, ``aarch64``), by default this one.

    Raises FileNotFoundError when this installation has none for it.
    """
    library = Path(__file__).parent / "lib" / (machine or platform.machine()) / paths.LIBRARY_NAME
    if not library.is_file():
        raise FileNotFoundError(
            f"this installation of nvshare has no library at {library}; "
            "install nvshare again, or in a source tree say: make libs"
        )
    return library


def preload_environment(run_dir: paths.RunDir | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that make a program a client of the scheduler of ``run_dir``; None: of the one that it finds.

    The library goes first in LD_PRELOAD; what ``environment`` has there stays behind it. Raises FileNotFoundError as
    ``library_path`` does.
    """
    library = str(library_path())
    others = [entry for entry in environment.get(paths.LD_PRELOAD, "").replace(" ", ":").split(":") if entry]
    entries = [library, *(entry for entry in others if entry != library)]
    place = {} if run_dir is None else {paths.RUN_DIR: str(run_dir.root)}
    return {paths.LD_PRELOAD: ":".join(entries), **place}

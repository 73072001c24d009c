"""What makes a program a client of the scheduler: the library, and the variables that load it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nvshare import paths, shim
from nvshare.ctl.errors import CommandError, ExitCode


def library(code: ExitCode = ExitCode.FAILED) -> Path:
    """The file of the library; CommandError with this exit code when the installation lacks it."""
    try:
        return shim.library_path()
    except FileNotFoundError as error:
        raise CommandError(f"{error}; install nvshare again, or in a source tree say: make libs", code) from error


def preload(run_dir: paths.RunDir, library: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What to add to the environment: the library goes first in LD_PRELOAD, what was there stays."""
    others = [entry for entry in environment.get(paths.LD_PRELOAD, "").replace(" ", ":").split(":") if entry]
    entries = [str(library), *(entry for entry in others if entry != str(library))]
    return {paths.LD_PRELOAD: ":".join(entries), paths.RUN_DIR: str(run_dir.root)}

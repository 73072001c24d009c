"""Options that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from nvshare import paths

RunDirOption = Annotated[
    Path | None,
    typer.Option(
        "--run-dir",
        metavar="DIR",
        show_default=False,
        help="The scheduler's run directory. Default: $NVSHARE_RUN_DIR, else /var/run/nvshare for root and "
        "$XDG_RUNTIME_DIR/nvshare for a user.",
    ),
]


def seconds(text: str) -> float:
    """A positive number of seconds, as an option's parser."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise typer.BadParameter(f"{text!r} is no positive number of seconds, such as 30 or 2.5")
    return value


def chosen_run_dir(context: typer.Context, option: Path | None) -> paths.RunDir:
    """The run directory that the option, or else the environment, names."""
    chosen = paths.RunDir(option) if option is not None else paths.run_dir(context.obj)
    return paths.RunDir(chosen.root.absolute())

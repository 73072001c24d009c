"""Which scheduler is meant: by the option, the environment, or the places where one usually is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nvshare import paths
from nvshare.path_option import path_of

RunDirOption = Annotated[
    Path | None,
    typer.Option(
        "--run-dir",
        metavar="DIR",
        parser=path_of,
        show_default=False,
        help="The scheduler's run directory. Default: $NVSHARE_RUN_DIR, else /var/run/nvshare if a scheduler "
        "answers there, else the user's own: $XDG_RUNTIME_DIR/nvshare, /run/user/UID/nvshare or /tmp/nvshare-UID.",
    ),
]


def named_run_dir(context: typer.Context, option: Path | None) -> paths.RunDir | None:
    """The run directory that the option, or else the environment, names; None: neither names one."""
    named = option or context.obj.get(paths.RUN_DIR)
    return paths.RunDir(path_of(named).absolute()) if named else None


def run_dirs(context: typer.Context, option: Path | None) -> tuple[paths.RunDir, ...]:
    """Where to look for a scheduler, in this order: at the named run directory only, or as ``paths.run_dirs`` says."""
    named = named_run_dir(context, option)
    return (named,) if named is not None else paths.run_dirs(context.obj)

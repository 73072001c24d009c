"""What makes a command a client: a scheduler that runs, and an environment with the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from nvshare import shim
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.options.run_dirs import named_run_dir, run_dirs
from nvshare.ctl.starting.background_scheduler import ensure_scheduler
from nvshare.ctl.starting.execution import find, inherit
from nvshare.ctl.starting.other_schedulers import instead_of_a_new_one


def prepare(context: typer.Context, command: Sequence[str], run_dir: Path | None) -> tuple[str, dict[str, str]]:
    """The command's file, and the environment that makes it a client of a scheduler that runs from now on.

    That one does not end while this process lives, or what inherits its files.
    """
    environment: Mapping[str, str] = context.obj
    executable = find(command[0], environment)
    named, looked_at = named_run_dir(context, run_dir), run_dirs(context, run_dir)
    if (elsewhere := instead_of_a_new_one(looked_at, named=named is not None)) is not None:
        named, looked_at = elsewhere, (elsewhere,)
    try:
        # Where none was named the program looks itself: it may outlive the scheduler that is found now.
        preload = shim.preload_environment(named, environment)
    except FileNotFoundError as error:
        raise CommandError(str(error), ExitCode.NOT_STARTED) from error
    hold_scheduler = ensure_scheduler(looked_at, environment)
    if hold_scheduler is not None:
        inherit(hold_scheduler)
    return executable, {**environment, **preload}

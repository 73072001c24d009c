"""``nvshare-ctl cdi``: what container engines must know for ``--device nvshare.com/gpu=all``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nvshare import cdi, paths, shim
from nvshare.ctl.errors import CommandError
from nvshare.ctl.options.run_dirs import named_run_dir
from nvshare.path_option import path_of

HELP = """
Print a CDI specification, by which docker and podman make a container share the GPU with others.

The container gets the library and the scheduler's socket, and the GPU from NVIDIA's own device. The scheduler must run.

[bold]Example:[/bold]

  nvshare-ctl cdi | sudo tee /etc/cdi/nvshare.com-gpu.json
  docker run --device nvidia.com/gpu=all --device nvshare.com/gpu=all IMAGE
"""
_RUN_DIR_HELP = "The scheduler's run directory. Default: $NVSHARE_RUN_DIR, else /var/run/nvshare."


def print_specification(
    context: typer.Context,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", metavar="DIR", parser=path_of, show_default=False, help=_RUN_DIR_HELP)
    ] = None,
) -> None:
    """Prints it, with the one device ``all``."""
    scheduler = named_run_dir(context, run_dir) or paths.RunDir(paths.SYSTEM_RUN_DIR)
    try:
        library = shim.library_path()
    except FileNotFoundError as error:
        raise CommandError(str(error)) from error
    # Imported where it is used: gRPC takes a fifth of a second to load, which the other commands need not wait for.
    from nvshare.ctl.asking.admin_client import admin

    # The folder of a scheduler that is not there would be missed only when a container is started.
    with admin((scheduler,), only_to_read=True):
        print(cdi.specification(cdi.KIND, (), library.parent, scheduler.client_socket.parent).decode(), end="")

"""``nvshare-ctl top``: its command line, and the loop that draws and hears keys."""

from __future__ import annotations

from typing import Annotated

import typer

from nvshare.ctl.options import completion
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs
from nvshare.ctl.options.seconds import INTERVALS, interval

HELP = """
Show live who holds which GPU, who waits, what is where in memory, and the turns of late.

Keys choose a GPU, set its policy and its quantum, choose a program of it, set its priority and whatever \
[bold]nvshare-ctl set[/bold] sets, and sort the clients; ? shows them all. \
To set anything takes the scheduler's own user; everybody may look.

[bold]Examples:[/bold]

  nvshare-ctl top
  nvshare-ctl top --device 0 --interval 0.5

[bold]Exit codes:[/bold] 1 not in a terminal, 3 no scheduler runs, 4 not permitted to ask it.
"""


def top(
    context: typer.Context,
    device: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--device",
            metavar="GPU",
            autocompletion=completion.devices,
            show_default=False,
            help="This GPU only: its index, its UUID or the beginning of that. Default: all.",
        ),
    ] = None,
    every: Annotated[
        float,
        typer.Option(
            "--interval", metavar="SECONDS", parser=interval, help=f"After how long it is drawn anew, {INTERVALS}."
        ),
    ] = 1.0,
    run_dir: RunDirOption = None,
) -> None:
    """Until q or Ctrl-C."""
    # Imported where it is used: gRPC takes a fifth of a second to load, which the other commands need not wait for.
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.asking.device_choice import chosen
    from nvshare.ctl.top.live import show

    candidates = run_dirs(context, run_dir)
    # A scheduler that was never there is an error; one that goes away later is waited for.
    with admin(candidates, only_to_read=True) as scheduler:
        status = scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=RPC_TIMEOUT)
        only = "" if device is None else chosen(device, status)
    show(candidates, only, every)

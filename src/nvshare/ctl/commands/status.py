"""``nvshare-ctl status``: who holds which device, who waits."""

from __future__ import annotations

from typing import Annotated

import typer

from nvshare.ctl.options.output import Output
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs

HELP = """
Show who holds which GPU, who waits, and how much memory each client takes.

FOOTPRINT is the memory that a client allocated, PINNED what the driver takes for it beside that \
(~: assumed, as long as it is not measured); HELD and WAITED are sums over all its turns so far. \
The memory of all clients together may exceed the GPU's: then they take turns. \
Where memory swaps, RESIDENT is what of the footprint is on the GPU, SWAPPED what is in host memory, \
STORED what of that is in a file instead, because its program sleeps, \
ALLOTTED what may be on the GPU now. \
NAME is the pod and container, or what run was told by --name; WAITS is for how long it has waited, \
and for whom. What else there is to say of a client is below the table. A narrow terminal has fewer columns. \
What is not known is shown as ?, and in JSON and YAML as null.

[bold]Examples:[/bold]

  nvshare-ctl status
  nvshare-ctl status --watch
  nvshare-ctl status -o json | jq '.devices[].clients[].pid'

[bold]Exit codes:[/bold] 3 no scheduler runs, 4 not permitted to ask it.
"""


def status(
    context: typer.Context,
    output: Annotated[
        Output,
        typer.Option("-o", "--output", help="A table for people; JSON or YAML for scripts, with units in the names."),
    ] = Output.TABLE,
    watch: Annotated[
        bool,
        typer.Option(
            "-w",
            "--watch",
            help="Go on until Ctrl-C, also when the scheduler restarts. With -o json, one document per line.",
        ),
    ] = False,
    run_dir: RunDirOption = None,
) -> None:
    """Asks once, or watches."""
    # Imported where it is used: gRPC takes a fifth of a second to load, which the other commands need not wait for.
    from nvshare.ctl.showing import status_output

    candidates = run_dirs(context, run_dir)
    if watch:
        status_output.follow(candidates, output.value)
    else:
        status_output.once(candidates, output.value)

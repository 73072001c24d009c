"""``nvshare-ctl demo``: what it is and what can be chosen; ``nvshare.demo`` does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nvshare import interrupts
from nvshare.ctl.errors import CommandError
from nvshare.ctl.options.path import path_of
from nvshare.demo.errors import DemoError

HELP = """
Watch jobs take turns: four jobs of 384 MiB on two simulated GPUs of 512 MiB, two on each.

That is a 32nd of four jobs of 12 GiB on two GPUs of 16 GiB. \
Two of them don't fit a GPU together, so they take turns on it, and the memory of the one that has no turn is swapped \
to host memory as far as it must be, some of it while the other one computes. \
Then the same jobs run for a while without turns, with memory that the driver pages, for comparison. \
Everything but the GPUs is real: the library, the scheduler, the protocol between them. \
The record of what each GPU executed and moved when is drawn as a timeline, \
and written as a page for a browser and as a trace for https://ui.perfetto.dev. Takes about a minute.

[bold]Examples:[/bold]

  nvshare-ctl demo
  nvshare-ctl demo --real    on this machine's GPUs, with jobs of 1 GiB

[bold]Exit codes:[/bold] 1 a result was wrong, or two jobs were on one GPU at once, or the demo could not run.
"""


def demo(
    context: typer.Context,
    real: Annotated[bool, typer.Option("--real", help="Use this machine's first GPUs, at most two.")] = False,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", parser=path_of, help="Where the page and the trace go.")
    ] = Path("nvshare-demo"),
) -> None:
    """Ends with exit code 1 when what was seen is not as it must be."""
    # Imported only when the demo runs: the other commands need not wait for it, nor for gRPC.
    from nvshare.ctl.asking.demo_clients import watching_clients
    from nvshare.demo import runner

    try:
        with interrupts.Raised():
            runner.run(real, output, context.obj, watching_clients)
    except DemoError as error:
        raise CommandError(str(error)) from error

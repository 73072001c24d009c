"""``nvshare-ctl demo``: what it is and what can be chosen; ``nvshare.demo`` does it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from nvshare import interrupts
from nvshare.ctl.errors import CommandError
from nvshare.demo.errors import DemoError
from nvshare.path_option import path_of

HELP = """
Watch jobs take turns: four jobs of 384 MiB on two simulated GPUs of 512 MiB, two on each.

That is a 32nd of four jobs of 12 GiB on two GPUs of 16 GiB. \
Two of them don't fit a GPU together, so they take turns on it, and the memory of the one that has no turn is swapped \
to host memory as far as it must be, some of it while the other one computes. \
Then the same jobs run for a while without turns, with memory that the driver pages, for comparison. \
Everything but the GPUs is real: the library, the scheduler, the protocol between them. \
The record of what each GPU executed and moved when is drawn as a timeline, \
and written as a page for a browser and as a trace for https://ui.perfetto.dev. Takes about a minute.

With [bold]--many[/bold] it shows sleep instead: a hundred programs on one simulated GPU of 16 GiB, which 27 of their \
contexts fill. Each answers a request now and then, and is off the GPU in between, context and all. Takes about \
two minutes and 2 GiB of host memory.

[bold]Examples:[/bold]

  nvshare-ctl demo
  nvshare-ctl demo --real       on this machine's GPUs, with jobs of 1 GiB
  nvshare-ctl demo --many 40    forty programs that sleep and wake

[bold]Exit codes:[/bold] 1 a result was wrong, or two jobs were on one GPU at once, or the demo could not run; with \
--many, too, if a program ended or never slept.
"""

_PROGRAMS = 100
_MOST_PROGRAMS = 400
"""512 processes may use a simulated GPU, and each program's pipe takes a descriptor."""


def _number_of_programs(text: str) -> int:
    if re.fullmatch("[0-9]{1,9}", text) is None or not 1 <= int(text) <= _MOST_PROGRAMS:
        raise typer.BadParameter(f"{text!r} is not allowed; a whole number from 1 to {_MOST_PROGRAMS} is")
    return int(text)


def demo(
    context: typer.Context,
    programs: Annotated[
        int | None,
        typer.Argument(
            metavar="[N]",
            parser=_number_of_programs,
            show_default=False,
            help=f"How many, with --many, 1 to {_MOST_PROGRAMS}. Default: {_PROGRAMS}.",
        ),
    ] = None,
    many: Annotated[bool, typer.Option("--many", help="Many programs that sleep, on one simulated GPU.")] = False,
    real: Annotated[bool, typer.Option("--real", help="Use this machine's first GPUs, at most two.")] = False,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", parser=path_of, help="Where the page and the trace go.")
    ] = Path("nvshare-demo"),
) -> None:
    """Ends with exit code 1 when what was seen is not as it must be."""
    if programs is not None and not many:
        raise typer.BadParameter("a number of programs goes with --many")
    if many and real:
        raise typer.BadParameter("--many is for a simulated GPU, and not with --real")
    # Imported only when the demo runs: the other commands need not wait for it, nor for gRPC.
    from nvshare.ctl.asking.demo_clients import deeds, watching_clients
    from nvshare.demo import runner
    from nvshare.demo.many import runner as many_runner

    try:
        with interrupts.Raised():
            if many:
                ask = many_runner.Scheduler(watching_clients, deeds)
                many_runner.run(programs or _PROGRAMS, output, context.obj, ask)
            else:
                runner.run(real, output, context.obj, watching_clients)
    except DemoError as error:
        raise CommandError(str(error)) from error

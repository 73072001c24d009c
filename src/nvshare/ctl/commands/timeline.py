"""``nvshare-ctl timeline``: who had which device when, in the last seconds."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs
from nvshare.ctl.options.seconds import look_back

HELP = """
Show who had which GPU when, in the last seconds of a running scheduler.

In the terminal a bar is a turn, shaded where memory moved, dots where the program waited or had nothing to do. \
The page shows waits, turns, drains and memory that moved, each with its figures.

[bold]Examples:[/bold]

  nvshare-ctl timeline
  nvshare-ctl timeline --seconds 600 -o html > turns.html
  nvshare-ctl timeline --seconds 600 -o perfetto > turns.json    for https://ui.perfetto.dev

[bold]Exit codes:[/bold] 3 no scheduler runs, 4 not permitted to ask it.
"""


class Output(StrEnum):
    """How the timeline is drawn."""

    BARS = "bars"
    HTML = "html"
    PERFETTO = "perfetto"
    JSON = "json"


def timeline(
    context: typer.Context,
    length: Annotated[
        float,
        typer.Option("--seconds", metavar="SECONDS", parser=look_back, help="How far back; up to a day."),
    ] = 60.0,
    output: Annotated[
        Output,
        typer.Option(
            "-o", "--output", help="Bars for a terminal, a page for a browser, a trace for perfetto, JSON for scripts."
        ),
    ] = Output.BARS,
    run_dir: RunDirOption = None,
) -> None:
    """Asks once and prints."""
    # Imported where it is used: gRPC takes a fifth of a second to load, which the other commands need not wait for.
    from rich.console import Console

    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.showing import timeline_document, timeline_views

    with admin(run_dirs(context, run_dir), only_to_read=True) as scheduler:
        seen = scheduler.GetTimeline(admin_pb2.GetTimelineRequest(seconds=length), timeout=RPC_TIMEOUT)
    match output:
        case Output.HTML:
            print(timeline_views.page({"": seen}), end="")
        case Output.PERFETTO:
            print(timeline_views.trace({"": seen}))
        case Output.JSON:
            print(json.dumps(timeline_document.from_timeline(seen), indent=2))
        case Output.BARS:
            console = Console()
            console.print(timeline_views.bars(seen, console.width))

"""``kubectl nvshare timeline``: who had which GPU when, on every node."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from nvshare.ctl.errors import ExitCode
from nvshare.ctl.kubectl.options import ContextOption, KubeconfigOption, NamespaceOption, NodeOption, asking
from nvshare.ctl.options.seconds import look_back

HELP = """
Show who had which GPU when, in the last seconds, on every node or on one.

[bold]Examples:[/bold]

  kubectl nvshare timeline
  kubectl nvshare timeline --node gpu-7 --seconds 600
  kubectl nvshare timeline --seconds 600 -o html > turns.html
  kubectl nvshare timeline -o perfetto > turns.json    for https://ui.perfetto.dev

[bold]Exit codes:[/bold] 1 a node did not answer, 3 there is no scheduler.
"""


class Output(StrEnum):
    """How the timeline is drawn."""

    TEXT = "text"
    HTML = "html"
    PERFETTO = "perfetto"


def timeline(
    length: Annotated[
        float,
        typer.Option("--seconds", metavar="SECONDS", parser=look_back, help="How far back; up to a day."),
    ] = 60.0,
    output: Annotated[
        Output,
        typer.Option("-o", "--output", help="Bars for a terminal, a page for a browser, or a trace for perfetto."),
    ] = Output.TEXT,
    node: NodeOption = None,
    namespace: NamespaceOption = "nvshare-system",
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Asks every node once and prints."""
    # Imported where they are used: they take their time to load, which --help need not wait for.
    from rich.console import Console
    from rich.text import Text

    from nvshare.ctl.kubectl.output import heading, no_answer
    from nvshare.ctl.showing import timeline_views
    from nvshare.ctl.showing.timeline_document import to_timeline

    ask = asking(kubeconfig, context, namespace)
    answers = ask("timeline", "--seconds", f"{length:g}", "--output", "json", only=node or "")
    seen = {answer.node: to_timeline(answer.document) for answer in answers if answer.document is not None}
    failed = [answer for answer in answers if answer.document is None]
    match output:
        case Output.HTML:
            print(timeline_views.page(seen), end="")
        case Output.PERFETTO:
            print(timeline_views.trace(seen))
        case Output.TEXT:
            console = Console()
            for answer in answers:
                console.print(heading(answer))
                if answer.document is None:
                    console.print(no_answer(answer), Text(), sep="\n")
                else:
                    console.print(timeline_views.bars(seen[answer.node], console.width))
    if output is not Output.TEXT:
        for answer in failed:
            print(f"kubectl nvshare: node {answer.node}: no answer: {answer.error}", file=sys.stderr)
    if failed:
        raise typer.Exit(ExitCode.FAILED)

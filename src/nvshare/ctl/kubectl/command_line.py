"""The command line of ``kubectl nvshare``: its commands, and what --help says of them."""

from __future__ import annotations

from typing import Annotated

import typer

from nvshare.ctl.command_class import Command
from nvshare.ctl.errors import ExitCode
from nvshare.ctl.kubectl import timeline, top
from nvshare.ctl.kubectl.options import ContextOption, KubeconfigOption, NamespaceOption, asking
from nvshare.ctl.options.output import Output

_HELP = "What nvshare's schedulers say on the nodes of a cluster."

_STATUS_HELP = """
Show who holds which GPU and who waits, on every node; with claims also what these were promised, consumed and have.

It runs nvshare-ctl in the scheduler's pod of each node. So you need the right to list pods in nvshare's \
namespace and to execute commands in them (the role nvshare-operator).

[bold]Examples:[/bold]

  kubectl nvshare status
  kubectl nvshare status -o json | jq '.nodes[].status.devices[].clients[].pod'

[bold]Exit codes:[/bold] 1 a node did not answer, 3 there is no scheduler.
"""


def build() -> typer.Typer:
    """The whole command line."""
    commands = typer.Typer(
        help=_HELP,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    commands.callback(help=_HELP)(_group)
    commands.command("status", cls=Command, help=_STATUS_HELP)(status)
    commands.command("top", cls=Command, help=top.HELP)(top.top)
    commands.command("timeline", cls=Command, help=timeline.HELP)(timeline.timeline)
    return commands


def _group() -> None:
    """The commands do the work."""


def status(
    output: Annotated[
        Output,
        typer.Option("-o", "--output", help="A table for people; JSON or YAML for scripts."),
    ] = Output.TABLE,
    namespace: NamespaceOption = "nvshare-system",
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Asks every node once."""
    # Imported where it is used: it takes its time to load, which --help need not wait for.
    from nvshare.ctl.kubectl.output import show

    answers = asking(kubeconfig, context, namespace)("status", "--output", "json")
    show(answers, output.value)
    if any(answer.error for answer in answers):
        raise typer.Exit(ExitCode.FAILED)

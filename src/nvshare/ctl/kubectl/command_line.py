"""The command line of ``kubectl nvshare``: its commands, and what --help says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nvshare.command_classes import Command
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.status import Output

_HELP = "What nvshare's schedulers say on the nodes of a cluster."

_STATUS_HELP = """
Show who holds which GPU and who waits, on every node.

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
    return commands


def _group() -> None:
    """Makes ``status`` a command of its own, to which others may come."""


def status(
    output: Annotated[
        Output,
        typer.Option("-o", "--output", help="A table for people; JSON or YAML for scripts."),
    ] = Output.TABLE,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", metavar="NAME", help="Where nvshare is installed.")
    ] = "nvshare-system",
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig. Default: its current one.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config.")
    ] = None,
) -> None:
    """Asks every node once."""
    # Imported where they are used: the Kubernetes client takes a second to load, which --help need not wait for.
    from nvshare.ctl.kubectl.output import show

    try:
        from nvshare.ctl.kubectl.nodes import Cluster
    except ModuleNotFoundError as missing:
        raise CommandError(
            f"{missing.name} (a Python package) is not installed; run: pip install 'nvshare[kubectl]'"
        ) from missing

    answers = Cluster(kubeconfig, context, namespace).ask_all()
    show(answers, output.value)
    if any(answer.error for answer in answers):
        raise typer.Exit(ExitCode.FAILED)

"""The command line of nvshare-node-agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nvshare import paths
from nvshare.command_classes import Command
from nvshare.kubernetes.account import account_of
from nvshare.kubernetes.names import NODE_NAME, is_node_name
from nvshare.log import LogFormat, LogLevel
from nvshare.nodeagent.options import Options
from nvshare.path_option import path_of
from nvshare.program import complain
from nvshare.version import version

NAME = "nvshare-node-agent"
FAILURE = 1


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose command line it is: the typer context's ``obj``."""

    environment: Mapping[str, str]
    tell: Callable[[Options], None]
    """Takes what was said, unless that was wrong or asked for help only."""


app = typer.Typer(add_completion=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{NAME} {version()}")
        raise typer.Exit


def _address(text: str) -> str:
    from nvshare.http import is_address

    if not is_address(text):
        raise typer.BadParameter(f"{text!r} is not of the form HOST:PORT, such as 127.0.0.1:9404")
    return text


def _node_name(text: str) -> str:
    if not is_node_name(text):
        raise typer.BadParameter(f"{text!r} is wrong; allowed: {NODE_NAME}; the pod's field spec.nodeName has it")
    return text


@app.command(
    cls=Command,
    help="Tells this node's scheduler what annotations of pods ask for, and Kubernetes whether the node can share its "
    "GPUs. Runs in a pod, with a service account that may read pods and nodes, write events and change its node.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def serve(
    context: typer.Context,
    node_name: Annotated[
        str, typer.Option(metavar="NAME", parser=_node_name, help="The node, as the Kubernetes API calls it.")
    ],
    run_dir: Annotated[
        Path, typer.Option(metavar="DIR", parser=path_of, help="The scheduler's run directory.")
    ] = paths.SYSTEM_RUN_DIR,
    metrics_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", parser=_address, help="Of /metrics, /healthz and /readyz.")
    ] = "0.0.0.0:9404",
    log_format: Annotated[LogFormat, typer.Option(help="How log lines on stderr look.")] = LogFormat.TEXT,
    log_level: Annotated[LogLevel, typer.Option(help="The least severity of what is logged.")] = LogLevel.INFO,
    _show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    caller: Caller = context.obj
    account = account_of(caller.environment)
    if account is None:
        complain(NAME, "it must run in a pod with a service account whose token is mounted: there is none")
        raise SystemExit(FAILURE)
    caller.tell(Options(node_name, paths.RunDir(run_dir), account, metrics_address, log_format, log_level))

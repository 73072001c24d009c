"""``nvshare-ctl run``: starts a scheduler if there is none, sets the preload, and becomes the command."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from nvshare import container_names, paths, terms_texts
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.options import completion
from nvshare.ctl.options.run_dirs import RunDirOption
from nvshare.ctl.options.seconds import quantum as quantum_of
from nvshare.ctl.options.terms import Given, check, text_option, variables, with_terms
from nvshare.ctl.starting.execution import execute
from nvshare.ctl.starting.preparation import prepare

HELP = """
Run a command that shares its GPUs with other such commands.

The command takes the place of this process, so its exit code, signals and terminal are its own. \
If no scheduler runs, neither the system's nor this user's own, one is started in the background; \
it ends by itself a while after the last command has ended.

[bold]Examples:[/bold]

  nvshare-ctl run -- python train.py --epochs 10
  nvshare-ctl run --quantum 5 -- ./simulate < input > output
  nvshare-ctl run --memory-limit 4G --priority low -- python notebook.py

[bold]Exit codes:[/bold] the command's own; 125 it could not be prepared, 126 it can't be executed, \
127 it was not found.
"""

_NameOption = Annotated[
    str | None,
    text_option(
        "--name",
        "NAME",
        terms_texts.container_of,
        "All processes of yours with the same name count as one, and are shown by it: 1 to 47 letters, digits, dots, "
        "- and _. Default: $NVSHARE_CONTAINER, else a new name, so that all that this command starts count together.",
        completion.containers,
    ),
]
_GangOption = Annotated[
    str | None,
    text_option(
        "--gang",
        "NAME[:SIZE]",
        terms_texts.gang_of,
        "Its processes hold their GPUs together, with all others of that name; with SIZE none begins before so "
        "many processes are there, on this machine. 0: it is of no gang. Default: $NVSHARE_GANG, else what is found.",
    ),
]


@with_terms
def run(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", show_default=False, help="The command and its arguments.")
    ],
    quantum: Annotated[
        float | None,
        typer.Option(
            "--quantum",
            metavar="SECONDS",
            parser=quantum_of,
            show_default=False,
            help="Set the scheduler's quantum, for all of its clients: how long one may hold a GPU while others wait, "
            "0.01 to 86400 seconds.",
        ),
    ] = None,
    *,
    terms: Given,
    name: _NameOption = None,
    gang: _GangOption = None,
    run_dir: RunDirOption = None,
) -> None:
    """Never returns: the process becomes the command."""
    environment: Mapping[str, str] = context.obj
    said = variables(terms) | {paths.CONTAINER: _container(name, environment, command[0])}
    if gang is not None:
        said[paths.GANG] = gang
    check({**environment, **said}, terms)
    executable, prepared = prepare(context, command, run_dir)
    if quantum is not None:
        _set_quantum(paths.run_dirs(prepared), quantum)
    execute(executable, command, {**prepared, **said})


def _container(name: str | None, environment: Mapping[str, str], command: str) -> str:
    """What the processes of a command are called: as the option or the environment says, else a name of their own."""
    if found := name or environment.get(paths.CONTAINER):
        return found
    return container_names.made_up(command)


def _set_quantum(run_dirs: Sequence[paths.RunDir], seconds: float) -> None:
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin

    try:
        with admin(run_dirs) as scheduler:
            scheduler.SetQuantum(admin_pb2.SetQuantumRequest(seconds=seconds), timeout=RPC_TIMEOUT)
    except CommandError as failure:
        raise CommandError(
            f"the quantum could not be set to {seconds:g} s: {failure}", ExitCode.NOT_STARTED
        ) from failure
    print(f"nvshare-ctl: quantum is now {seconds:g} s on all devices", file=sys.stderr)

"""The command line of nvshare-ctl put together: which commands there are and what --help says of them."""

from __future__ import annotations

from typing import Annotated

import typer

from nvshare.ctl.command_class import Command
from nvshare.ctl.commands import cdi, demo, jupyter, library_path, run, set_command, simulate, sleep, status, timeline
from nvshare.ctl.doctor import command as doctor
from nvshare.ctl.service import command as service
from nvshare.ctl.top import command as top
from nvshare.version import version

_HELP = """
Several programs share a GPU: start them, see who holds it and who waits, and set how they share.

[bold]Start here:[/bold]

  nvshare-ctl run -- python train.py    a program that shares its GPUs
  nvshare-ctl status                    who holds which GPU, who waits
  nvshare-ctl top                       the same live, with keys to set things
  nvshare-ctl timeline                  who had which GPU when
  nvshare-ctl doctor                    is all well here? And with -- ./program: is it shared?
  nvshare-ctl service install           one scheduler for all users, as root
  nvshare-ctl jupyter install           a kernel for notebooks that shares its GPUs
  nvshare-ctl demo                      see it work, with no GPU needed
  nvshare-ctl simulate -- ./program     a program on simulated GPUs

[bold]Exit codes:[/bold] 0 done, 1 refused or failed, 2 wrong command line, 3 no scheduler runs, \
4 not permitted to command it, 125 to 127 see run --help, 130 Ctrl-C, 141 who read \
the output has gone.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nvshare-ctl {version()}")
        raise typer.Exit


def _top(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of nvshare-ctl itself; the commands do the work."""


def build() -> typer.Typer:
    """The whole command line, ready to be called with the environment as ``obj``."""
    commands = typer.Typer(
        help=_HELP,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    commands.callback(help=_HELP)(_top)
    commands.command("run", cls=Command, context_settings={"allow_interspersed_args": False}, help=run.HELP)(run.run)
    commands.command("status", cls=Command, help=status.HELP)(status.status)
    commands.command("top", cls=Command, help=top.HELP)(top.top)
    commands.command("timeline", cls=Command, help=timeline.HELP)(timeline.timeline)
    commands.add_typer(set_command.build(), name="set")
    commands.command("sleep", cls=Command, help=sleep.SLEEP_HELP)(sleep.sleep)
    commands.command("wake", cls=Command, help=sleep.WAKE_HELP)(sleep.wake)
    commands.command("doctor", cls=Command, context_settings={"allow_interspersed_args": False}, help=doctor.HELP)(
        doctor.doctor
    )
    commands.add_typer(service.build(), name="service")
    commands.add_typer(jupyter.build(), name="jupyter")
    commands.command("demo", cls=Command, help=demo.HELP)(demo.demo)
    commands.command("simulate", cls=Command, context_settings={"allow_interspersed_args": False}, help=simulate.HELP)(
        simulate.simulate
    )
    commands.command("library-path", cls=Command, help=library_path.HELP)(library_path.library_path)
    commands.command("cdi", cls=Command, help=cdi.HELP)(cdi.print_specification)
    return commands

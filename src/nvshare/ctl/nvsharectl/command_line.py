"""The command line of nvsharectl."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from nvshare.ctl.command_class import Command
from nvshare.ctl.errors import CommandError
from nvshare.ctl.options.seconds import LONGEST_QUANTUM
from nvshare.numbers import whole_number_of
from nvshare.paths import run_dirs
from nvshare.program import complain

NAME = "nvsharectl"

_HELP = """
A command line utility to configure the nvshare scheduler, as the original nvshare had it.

nvshare-ctl can do more. Exit codes: 0 done, 1 refused or failed, 2 wrong command line, 3 no scheduler runs,
4 not permitted to command it.
"""


class Switch(StrEnum):
    """What the original calls the status of the scheduler."""

    ON = "on"
    OFF = "off"


def _quantum(text: str) -> int:
    try:
        seconds = whole_number_of(text, 0)
    except ValueError:
        seconds = 0
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is no positive whole number of seconds, such as 30")
    return seconds


def build() -> typer.Typer:
    """The command line, ready to be called with the environment as ``obj``."""
    commands = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    commands.command(cls=Command, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})(_nvsharectl)
    return commands


def _nvsharectl(
    context: typer.Context,
    quantum: Annotated[
        int | None,
        typer.Option(
            "-T",
            "--set-tq",
            metavar="n",
            parser=_quantum,
            help="Set the time quantum of the scheduler to n seconds, a positive integer.",
        ),
    ] = None,
    switch: Annotated[
        Switch | None,
        typer.Option(
            "-S",
            "--anti-thrash",
            metavar="on|off",
            help="Set the desired status of the scheduler: on as before, or off, when all programs run at any time.",
        ),
    ] = None,
) -> None:
    """Commands the scheduler and says what is now so."""
    if switch is None and quantum is None:
        print(context.get_help())
        return
    # Imported where it is used: gRPC takes a fifth of a second to load, which --help need not wait for.
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin

    with admin(run_dirs(context.obj)) as scheduler:
        if switch is not None:
            on = switch is Switch.ON
            status = scheduler.SetScheduling(admin_pb2.SetSchedulingRequest(on=on), timeout=RPC_TIMEOUT)
            if on and (off := [device.uuid for device in status.devices if device.policy == "off"]):
                raise CommandError(
                    f"the policy of {', '.join(off)} stays off, because it was set so: "
                    f"set another one with 'nvshare-ctl set policy'"
                )
            print(f"Successfully turned the nvshare-scheduler {switch.value}.")
        if quantum is not None:
            seconds = min(quantum, int(LONGEST_QUANTUM))
            if seconds < quantum:
                complain(NAME, f"the longest TQ is {seconds} seconds, and {quantum} are more: setting {seconds}")
            scheduler.SetQuantum(admin_pb2.SetQuantumRequest(seconds=seconds), timeout=RPC_TIMEOUT)
            print(f"Successfully set the nvshare-scheduler TQ to {seconds} seconds.")

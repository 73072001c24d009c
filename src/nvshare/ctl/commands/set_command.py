"""``nvshare-ctl set``: how the clients of a device share it, and what a container may have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from nvshare.ctl.command_class import Command
from nvshare.ctl.commands import set_terms
from nvshare.ctl.options import completion
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs
from nvshare.ctl.options.seconds import quantum as quantum_of
from nvshare.program import complain

_HELP = "Set how the clients of a running scheduler share their devices, or what a container may have."

_QUANTUM_HELP = """
Set how long a client may hold a GPU while others wait that can't run beside it.

With a short quantum each client runs soon; with a long one less time is lost at the hand-overs. \
Where memory swaps a turn is longer if need be: at least 24 times what the GPU waits for data at its end. \
It outlives the scheduler, until it is set again or one is started with another --quantum.

[bold]Examples:[/bold]

  nvshare-ctl set quantum 30
  nvshare-ctl set quantum 2.5 --device 0
  nvshare-ctl set quantum 2.5 --device GPU-6ec4
"""

_POLICY_HELP = """
Set how the clients of a GPU share it.

It counts at once, and outlives the scheduler, until it is set again or one is started with another --policy. One of:

  [bold]auto[/bold]       those that fit its memory together run together, others in turns
  [bold]exclusive[/bold]  one client at a time
  [bold]off[/bold]        all run at any time; none is asked to stop

[bold]Example:[/bold]

  nvshare-ctl set policy exclusive
"""

_DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="GPU",
        autocompletion=completion.devices,
        show_default=False,
        help="This GPU only: its index, its UUID or the beginning of that, as status shows them. "
        "Default: all GPUs, also later ones.",
    ),
]


class PolicyChoice(StrEnum):
    """The policies that the scheduler knows."""

    AUTO = "auto"
    EXCLUSIVE = "exclusive"
    OFF = "off"


def build() -> typer.Typer:
    """The group of commands."""
    group = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("quantum", cls=Command, help=_QUANTUM_HELP)(set_quantum)
    group.command("policy", cls=Command, help=_POLICY_HELP)(set_policy)
    set_terms.add_to(group)
    return group


def set_quantum(
    context: typer.Context,
    quantum: Annotated[
        float,
        typer.Argument(
            metavar="SECONDS", parser=quantum_of, show_default=False, help="The quantum in seconds, 0.01 to 86400."
        ),
    ],
    device: _DeviceOption = None,
    run_dir: RunDirOption = None,
) -> None:
    """Commands the scheduler and says what is now set."""
    # Imported where it is used: gRPC takes a fifth of a second to load, which the other commands need not wait for.
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.asking.device_choice import uuid_of
    from nvshare.ctl.showing.lasting import warning

    with admin(run_dirs(context, run_dir)) as scheduler:
        uuid = uuid_of(device, scheduler)
        request = admin_pb2.SetQuantumRequest(seconds=quantum, device_uuid=uuid)
        after = scheduler.SetQuantum(request, timeout=RPC_TIMEOUT)
    print(f"quantum of {_scope(uuid)}: {quantum:g} s")
    if lost := warning(after, f"start nvshare-scheduler with --quantum {quantum:g}, for all devices"):
        complain("nvshare-ctl", lost)


def set_policy(
    context: typer.Context,
    policy: Annotated[PolicyChoice, typer.Argument(show_default=False, help="The policy.")],
    device: _DeviceOption = None,
    run_dir: RunDirOption = None,
) -> None:
    """Commands the scheduler and says what is now set."""
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.asking.device_choice import uuid_of
    from nvshare.ctl.showing.lasting import warning

    with admin(run_dirs(context, run_dir)) as scheduler:
        uuid = uuid_of(device, scheduler)
        request = admin_pb2.SetPolicyRequest(policy=policy.value, device_uuid=uuid)
        after = scheduler.SetPolicy(request, timeout=RPC_TIMEOUT)
    print(f"policy of {_scope(uuid)}: {policy.value}")
    if lost := warning(after, f"start nvshare-scheduler with --policy {policy.value}, for all devices"):
        complain("nvshare-ctl", lost)


def _scope(uuid: str) -> str:
    return uuid or "all devices"

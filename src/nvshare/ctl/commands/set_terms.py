"""``nvshare-ctl set weight`` and the like: what a container may have, and how much it matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from nvshare.container_names import claim_of
from nvshare.ctl.command_class import Command
from nvshare.ctl.options import completion
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs
from nvshare.ctl.options.terms import TERMS, Term, answer, meant
from nvshare.program import complain

_PROCESS = "pid:"
"""How the name of a process begins that says none."""


def _offered(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the command that is typed: its words, and what takes it back."""
    words = next((term.words for term in TERMS if term.name == ctx.info_name), ())
    return completion.among((*words, "none"))(incomplete)


_Value = Annotated[
    str,
    typer.Argument(metavar="VALUE", show_default=False, autocompletion=_offered, help="What to set, or none."),
]
_Container = Annotated[
    str,
    typer.Argument(
        metavar="CONTAINER",
        autocompletion=completion.containers,
        show_default=False,
        help="As status shows it: NAMESPACE/POD/CONTAINER, or the name that run was given.",
    ),
]


_HELP = """
{term.command_help}

It counts at once, for all processes of the container together, and outlives the scheduler. \
[bold]none[/bold] or [bold]default[/bold] takes it back: what the annotation {term.annotation} of the pod \
says counts again, else ${term.variable} in them.

[bold]Examples:[/bold]

  nvshare-ctl set {term.name} {term.example} train
  nvshare-ctl set {term.name} none default/notebook-0/main
"""


def add_to(group: typer.Typer) -> None:
    """Adds the commands to their group."""
    for term in TERMS:
        group.command(term.name, cls=Command, help=_HELP.format(term=term))(_command(term))


def _command(term: Term) -> Callable[..., None]:
    def set_term(
        context: typer.Context,
        text: _Value,
        container: _Container,
        run_dir: RunDirOption = None,
    ) -> None:
        """Commands the scheduler and says what is now set."""
        try:
            field, value = meant(term.name, text)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="VALUE") from None
        # Imported where it is used: gRPC takes a fifth of a second to load.
        from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
        from nvshare.ctl.asking.terms_request import request
        from nvshare.ctl.showing.lasting import warning

        asked = request(field, value, container)
        with admin(run_dirs(context, run_dir)) as scheduler:
            after = scheduler.SetTerms(asked, timeout=RPC_TIMEOUT)
        taken_back = bool(asked.taken_back)
        print(answer(term.name, container, text))
        if taken_back:
            # That nothing is set is what a machine begins with.
            after.lost_with_machine = ""
        keep = f"start its programs with {term.variable}={text}, or annotate its pod with {term.annotation}={text}"
        if claim_of(container):
            keep += "; if the claim says it, only another claim can"
        if lost := warning(after, keep):
            complain("nvshare-ctl", lost)
        elif not taken_back and container.startswith(_PROCESS):
            process = container.removeprefix(_PROCESS)
            complain("nvshare-ctl", f"this is lost when process {process} ends: to keep it, {keep}")

    return set_term

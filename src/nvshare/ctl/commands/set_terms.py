"""``nvshare-ctl set weight`` and the like: what a container may have, and how much it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from nvshare import paths, terms_texts
from nvshare.ctl.options import completion
from nvshare.ctl.options.run_dirs import RunDirOption, run_dirs
from nvshare.program import complain

_TAKES_BACK = ("none", "default")
_PROCESS = "pid:"
"""How the name of a process begins that says none."""
_Value = Annotated[
    str,
    typer.Argument(
        metavar="VALUE", show_default=False, autocompletion=completion.term_values, help="What to set, or none."
    ),
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


@dataclass(frozen=True, slots=True)
class _Term:
    """One of the terms."""

    command: str
    field: str
    """Of the request."""
    value_of: Callable[[str], Any]
    """ValueError: the text means nothing."""
    what: str
    variable: str
    example: str

    @property
    def annotation(self) -> str:
        """Of a pod, which says the same."""
        return f"nvshare.com/{self.command}"

    @property
    def help(self) -> str:
        """What the command says of itself."""
        return f"""
{self.what}

It counts at once, for all processes of the container together, and outlives the scheduler. \
[bold]none[/bold] or [bold]default[/bold] takes it back: what the annotation {self.annotation} of the pod \
says counts again, else ${self.variable} in them.

[bold]Examples:[/bold]

  nvshare-ctl set {self.command} {self.example} train
  nvshare-ctl set {self.command} none default/notebook-0/main
"""


_TERMS = (
    _Term(
        "weight",
        "weight",
        terms_texts.weight_of,
        "Set a container's share of a GPU's time against those of others: a number from 0.01 to 1000.",
        paths.WEIGHT,
        "2.5",
    ),
    _Term(
        "priority",
        "priority",
        terms_texts.priority_of,
        "Set whose turn comes first: low, normal or high.",
        paths.PRIORITY,
        "high",
    ),
    _Term(
        "compute-limit",
        "compute_limit",
        terms_texts.share_of,
        "Set the most of a GPU's time that a container gets, even if nobody else wants it: 30 or 30%.",
        paths.COMPUTE_LIMIT,
        "30%",
    ),
    _Term(
        "memory-limit",
        "memory_limit_bytes",
        terms_texts.memory_of,
        "Set what all processes of a container together may allocate on each GPU. Below what they have, nothing is "
        "taken away: they get no more.",
        paths.MEMORY_LIMIT,
        "2GiB",
    ),
    _Term(
        "memory-request",
        "memory_request_bytes",
        terms_texts.memory_of,
        "Set how much of a container's memory stays on each GPU while others use that, and is not given to them. "
        "It is for memory that swaps; what can't move and native memory are a part of it, managed memory is not. What "
        "others were given before they keep: status says how much of a request is kept.",
        paths.MEMORY_REQUEST,
        "512MiB",
    ),
    _Term(
        "when-full",
        "when_full",
        terms_texts.when_full_of,
        "Set what becomes of memory that a container asks for and that only others' ends could free: wait for them, or "
        "refuse it, as a GPU refuses what it does not have. By default containers of pods wait, and no others.",
        paths.WHEN_FULL,
        "wait",
    ),
)


def add_to(group: typer.Typer) -> None:
    """Adds the commands to their group."""
    for term in _TERMS:
        group.command(term.command, help=term.help)(_command(term))


def commands() -> tuple[str, ...]:
    """What can be set of a container."""
    return tuple(term.command for term in _TERMS)


def meant(command: str, text: str) -> tuple[str, Any]:
    """The field of the request, and its value, None to take it back; ValueError: no such command, or no such value."""
    term = next((term for term in _TERMS if term.command == command), None)
    if term is None:
        raise ValueError(f"{command!r} is none of {', '.join(commands())}")
    return term.field, None if text in _TAKES_BACK else term.value_of(text)


def _command(term: _Term) -> Callable[..., None]:
    def set_term(
        context: typer.Context,
        text: _Value,
        container: _Container,
        run_dir: RunDirOption = None,
    ) -> None:
        """Commands the scheduler and says what is now set."""
        try:
            field, value = meant(term.command, text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        # Imported where it is used: gRPC takes a fifth of a second to load.
        from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
        from nvshare.ctl.asking.terms_request import request
        from nvshare.ctl.showing.lasting import warning

        asked = request(field, value, container)
        with admin(run_dirs(context, run_dir)) as scheduler:
            after = scheduler.SetTerms(asked, timeout=RPC_TIMEOUT)
        taken_back = bool(asked.taken_back)
        print(f"{term.command} of {container}: {'taken back' if taken_back else text}")
        if taken_back:
            # That nothing is set is what a machine begins with.
            after.lost_with_machine = ""
        keep = f"start its programs with {term.variable}={text}, or annotate its pod with {term.annotation}={text}"
        if lost := warning(after, keep):
            complain("nvshare-ctl", lost)
        elif not taken_back and container.startswith(_PROCESS):
            process = container.removeprefix(_PROCESS)
            complain("nvshare-ctl", f"this is lost when process {process} ends: to keep it, {keep}")

    return set_term

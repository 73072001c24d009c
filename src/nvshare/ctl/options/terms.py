"""The options of ``nvshare-ctl run`` that say what a command may have, and the environment that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from nvshare import container_names, paths, terms_texts
from nvshare.ctl.options import completion


def _option(
    flag: str, metavar: str, check: Callable[[str], Any], text: str, offered: Callable[..., list[str]] | None = None
) -> Any:
    """One whose value is the text itself, if that means something. ``offered``: to a shell that completes it."""

    def parse(given: str) -> str:
        try:
            check(given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return given

    return typer.Option(flag, metavar=metavar, parser=parse, autocompletion=offered, show_default=False, help=text)


WeightOption = Annotated[
    str | None,
    _option(
        "--weight",
        "W",
        terms_texts.weight_of,
        "Its share of a GPU's time against those of others, 0.01 to 1000. Default: $NVSHARE_WEIGHT, else 1.",
    ),
]
PriorityOption = Annotated[
    str | None,
    _option(
        "--priority",
        "low|normal|high",
        terms_texts.priority_of,
        "Whose turn comes first. Default: $NVSHARE_PRIORITY, else normal.",
        completion.priorities,
    ),
]
ComputeLimitOption = Annotated[
    str | None,
    _option(
        "--compute-limit",
        "PERCENT",
        terms_texts.share_of,
        "The most of a GPU's time that it gets, even if nobody else wants it: 30 or 30%.",
    ),
]
MemoryLimitOption = Annotated[
    str | None,
    _option(
        "--memory-limit",
        "SIZE",
        terms_texts.memory_of,
        "What all its processes together may allocate on each GPU: 512MiB, 8G. Their contexts don't count.",
    ),
]
MemoryRequestOption = Annotated[
    str | None,
    _option(
        "--memory-request",
        "SIZE",
        terms_texts.memory_of,
        "How much of its memory stays on each GPU while others use that, and is not given to them: 512MiB, 8G. "
        "For memory that swaps; no more than its memory limit.",
    ),
]
WhenFullOption = Annotated[
    str | None,
    _option(
        "--when-full",
        "wait|refuse",
        terms_texts.when_full_of,
        "What becomes of memory that it asks for and that only others' ends could free. Default: $NVSHARE_WHEN_FULL, "
        "else refuse.",
        completion.when_full,
    ),
]
NameOption = Annotated[
    str | None,
    _option(
        "--name",
        "NAME",
        terms_texts.container_of,
        "All processes of yours with the same name count as one, and are shown by it. Default: $NVSHARE_CONTAINER, "
        "else a new name, so that all that this command starts count together.",
        completion.containers,
    ),
]
GangOption = Annotated[
    str | None,
    _option(
        "--gang",
        "NAME[:SIZE]",
        terms_texts.gang_of,
        "Its processes hold their GPUs together, with all others of that name; with SIZE none begins before so "
        "many processes are there, on this machine. 0: it is of no gang. Default: $NVSHARE_GANG, else what is found.",
    ),
]


def container(name: str | None, environment: Mapping[str, str], command: str) -> str:
    """What the processes of a command are called: as the option or the environment says, else a name of their own."""
    if found := name or environment.get(paths.CONTAINER):
        return found
    return container_names.made_up(command)


def fault(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Where an environment says a limit that means nothing, or a memory request above it, and what is wrong; or None.

    With such a limit the library fails the program's calls.
    """
    for name, read in ((paths.MEMORY_LIMIT, terms_texts.memory_of), (paths.COMPUTE_LIMIT, terms_texts.share_of)):
        try:
            if said := environment.get(name):
                read(said)
        except ValueError as error:
            return name, str(error)
    limit, request = environment.get(paths.MEMORY_LIMIT), environment.get(paths.MEMORY_REQUEST)
    try:
        if not limit or not request or terms_texts.memory_of(request) <= terms_texts.memory_of(limit):
            return None
    except ValueError:
        return None  # The library says that the request counts as not set.
    return "--memory-request", f"a memory request of {request} is above the memory limit of {limit}"


def variables(given: Mapping[str, str | None]) -> dict[str, str]:
    """Those of the environment's variables for which an option was given."""
    return {name: value for name, value in given.items() if value is not None}

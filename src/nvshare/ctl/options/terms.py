"""What a container may have, and how much it matters, each said once: as an option of ``run`` and of ``jupyter
install``, as a variable of the environment, and as a command of ``set``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from nvshare import paths, switches, terms_texts
from nvshare.ctl.options import completion

TAKES_BACK: Final = ("none", "default")
"""What ``set`` is told instead of a value."""


@dataclass(frozen=True, slots=True)
class Term:
    """One of the terms."""

    name: str
    """Of the option and of the command."""
    field: str
    """Of the request to the scheduler."""
    variable: str
    value_of: Callable[[str], Any]
    """ValueError: the text means nothing."""
    option_help: str
    command_help: str
    example: str
    words: tuple[str, ...] = ()
    """All texts that mean something, where they are few."""
    metavar: str = ""
    """What stands for the text in the help; empty: the words."""
    unit: str = ""
    """May stand behind the text, and is shown there."""

    @property
    def flag(self) -> str:
        """The option."""
        return f"--{self.name}"

    @property
    def parameter(self) -> str:
        """What the option is called in Python."""
        return self.name.replace("-", "_")

    @property
    def annotation(self) -> str:
        """Of a pod, which says the same."""
        return f"nvshare.com/{self.name}"


TERMS: Final = (
    Term(
        name="weight",
        field="weight",
        variable=paths.WEIGHT,
        value_of=terms_texts.weight_of,
        metavar="W",
        option_help="Its share of a GPU's time against those of others, 0.01 to 1000. Default: $NVSHARE_WEIGHT, else "
        "1.",
        command_help="Set a container's share of a GPU's time against those of others: a number from 0.01 to 1000.",
        example="2.5",
    ),
    Term(
        name="priority",
        field="priority",
        variable=paths.PRIORITY,
        value_of=terms_texts.priority_of,
        option_help="Whose turn comes first. Default: $NVSHARE_PRIORITY, else normal.",
        command_help="Set whose turn comes first: low, normal or high.",
        example="high",
        words=terms_texts.PRIORITIES,
    ),
    Term(
        name="compute-limit",
        field="compute_limit",
        variable=paths.COMPUTE_LIMIT,
        value_of=terms_texts.share_of,
        metavar="PERCENT",
        unit="%",
        option_help="The most of a GPU's time that it gets, even if nobody else wants it, 0.1 to 100: 30 or 30%. "
        "Default: $NVSHARE_COMPUTE_LIMIT, else none.",
        command_help="Set the most of a GPU's time that a container gets, even if nobody else wants it, 0.1 to 100: 30 "
        "or 30%.",
        example="30%",
    ),
    Term(
        name="memory-limit",
        field="memory_limit_bytes",
        variable=paths.MEMORY_LIMIT,
        value_of=terms_texts.memory_of,
        metavar="SIZE",
        option_help="What all its processes together may allocate on each GPU: 512MiB, 8G. Their contexts don't count. "
        "Default: $NVSHARE_MEMORY_LIMIT, else none.",
        command_help="Set what all processes of a container together may allocate on each GPU. Below what they have, "
        "nothing is taken away: they get no more.",
        example="2GiB",
    ),
    Term(
        name="memory-request",
        field="memory_request_bytes",
        variable=paths.MEMORY_REQUEST,
        value_of=terms_texts.memory_of,
        metavar="SIZE",
        option_help="How much of its memory stays on each GPU while others use that, and is not given to them: 512MiB, "
        "8G. For memory that swaps; no more than its memory limit. Default: $NVSHARE_MEMORY_REQUEST, "
        "else none.",
        command_help="Set how much of a container's memory stays on each GPU while others use that, and is not given "
        "to them. It is for memory that swaps; what can't move and native memory are a part of it, managed memory is "
        "not. What others were given before they keep: status says how much of a request is kept.",
        example="512MiB",
    ),
    Term(
        name="when-full",
        field="when_full",
        variable=paths.WHEN_FULL,
        value_of=terms_texts.when_full_of,
        option_help="What becomes of memory that it asks for and that only others' ends could free. Default: "
        "$NVSHARE_WHEN_FULL, else refuse.",
        command_help="Set what becomes of memory that a container asks for and that only others' ends could free: wait "
        "for them, or refuse it, as a GPU refuses what it does not have. By default containers of pods wait, and no "
        "others.",
        example="wait",
        words=terms_texts.WHEN_FULL,
    ),
    Term(
        name="sleep",
        field="sleep",
        variable=paths.SLEEP,
        value_of=terms_texts.sleep_of,
        option_help="When an idle process of it leaves its GPUs altogether, context and all: never; under pressure, "
        "where others lack memory; or when idle, too, for as long as the scheduler's --sleep-after says. Default: "
        "$NVSHARE_SLEEP, else pressure, and idle where the scheduler has a --sleep-after.",
        command_help="Set when idle processes of a container leave their GPUs altogether, context and all: never; "
        "under pressure, where others lack memory; or when idle, too, for as long as the scheduler's --sleep-after "
        "says. The next call of CUDA wakes them.",
        example="idle",
        words=terms_texts.SLEEP,
    ),
)

_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    **{term.variable: term.value_of for term in TERMS},
    paths.CONTAINER: terms_texts.container_of,
    paths.GANG: terms_texts.gang_of,
    paths.MEMORY: terms_texts.backend_of,
    paths.ON_MISSING: terms_texts.on_missing_of,
    paths.SINGLE_OVERSUB: switches.meaning_of,
    paths.DEBUG: switches.meaning_of,
}
"""Variables whose texts can mean nothing, and what reads them."""

Given = Mapping[Term, str]
"""The texts of the terms for which an option was given."""


def text_option(
    flag: str,
    metavar: str,
    value_of: Callable[[str], Any],
    text: str,
    offered: Callable[..., list[str]] | None = None,
) -> Any:
    """One whose value is the text itself, if that means something. ``offered``: to a shell that completes it."""

    def parse(given: str) -> str:
        try:
            value_of(given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return given

    return typer.Option(flag, metavar=metavar, parser=parse, autocompletion=offered, show_default=False, help=text)


def with_terms(work: Callable[..., None]) -> Callable[..., None]:
    """A command that has an option for each term, and tells ``work`` what was given as ``terms``."""

    def command(**values: Any) -> None:
        texts = {term: values.pop(term.parameter) for term in TERMS}
        work(**values, terms={term: text for term, text in texts.items() if text is not None})

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(work, eval_str=True).parameters.values():
        parameters += map(_parameter, TERMS) if parameter.name == "terms" else [parameter]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _parameter(term: Term) -> inspect.Parameter:
    offered = completion.among(term.words) if term.words else None
    option = text_option(term.flag, term.metavar or "|".join(term.words), term.value_of, term.option_help, offered)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(term.parameter, kind, default=None, annotation=Annotated[str | None, option])


def variables(given: Given) -> dict[str, str]:
    """What the environment says of them."""
    return {term.variable: text for term, text in given.items()}


def check(environment: Mapping[str, str], given: Given) -> None:
    """typer.BadParameter where both together say what means nothing, or a memory request above the limit."""
    if fault := _fault({**environment, **variables(given)}):
        variable, what = fault
        said_by = next((term.flag for term in given if term.variable == variable), variable)
        raise typer.BadParameter(what, param_hint=said_by)


def _fault(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Which variable is wrong, and why."""
    for name, read in _READ.items():
        try:
            if said := environment.get(name):
                read(said)
        except ValueError as error:
            return name, str(error)
    limit, request = environment.get(paths.MEMORY_LIMIT), environment.get(paths.MEMORY_REQUEST)
    if not limit or not request or terms_texts.memory_of(request) <= terms_texts.memory_of(limit):
        return None
    return paths.MEMORY_REQUEST, f"a memory request of {request} is above the memory limit of {limit}"


def meant(command: str, text: str) -> tuple[str, Any]:
    """What ``set`` is told: the field of the request, and its value, None to take it back.

    ValueError: no such command, or no such value.
    """
    term = next((term for term in TERMS if term.name == command), None)
    if term is None:
        raise ValueError(f"{command!r} is none of {', '.join(each.name for each in TERMS)}")
    if text in TAKES_BACK:
        return term.field, None
    try:
        return term.field, term.value_of(text)
    except ValueError as error:
        raise ValueError(f"{error}; {TAKES_BACK[0]!r} takes back what was set") from None


def answer(command: str, container: str, text: str) -> str:
    """What is said when ``set`` was told what means something, and the scheduler has done it."""
    unit = next(term.unit for term in TERMS if term.name == command)
    return f"{command} of {container}: {'taken back' if text in TAKES_BACK else text.removesuffix(unit) + unit}"

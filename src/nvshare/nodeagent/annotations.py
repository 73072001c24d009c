"""What annotations of a pod ask for, container by container, and what is wrong with them. Pure.

``nvshare.com/weight`` and its like are for every container of the pod, ``nvshare.com/container.NAME.weight`` for one.
NVIDIA's ``nvidia.com/container.NAME.gpu-memory.limit`` and ``.request`` count where nvshare's own say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nvshare import display, terms_texts
from nvshare.terms_texts import Terms

_PREFIX: Final = "nvshare.com/"
_CONTAINER: Final = "container."
_NVIDIA: Final = f"nvidia.com/{_CONTAINER}"
_ALIASES: Final = {"gpu-memory.limit": "memory-limit", "gpu-memory.request": "memory-request"}
_LONGEST: Final = 100
"""Letters of an annotation that are repeated in a message."""
_MOST_NAMED: Final = 20
"""Containers that are named in a message."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An annotation that does not count."""

    key: str
    message: str
    """What it says, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that annotations of a pod say."""

    terms: Mapping[str, Terms]
    """By container, of those of which something is said; the empty name: of the whole pod."""
    problems: tuple[Problem, ...]
    counting: frozenset[str] = field(default=frozenset(), compare=False)
    """The keys of all annotations that count, as far as their values go."""

    def key_of(self, container: str, field: str) -> str:
        """The annotation that says one of the terms of a container; empty: none does."""
        return _key_of(container, field, self.counting)


@dataclass(frozen=True, slots=True)
class _Key:
    field: str
    read: Callable[[str], Any]


_KEYS: Final = {
    "weight": _Key("weight", terms_texts.weight_of),
    "priority": _Key("priority", terms_texts.priority_of),
    "compute-limit": _Key("compute_limit", terms_texts.share_of),
    "memory-limit": _Key("memory_limit_bytes", terms_texts.memory_of),
    "memory-request": _Key("memory_request_bytes", terms_texts.memory_of),
    "when-full": _Key("when_full", terms_texts.when_full_of),
    "sleep": _Key("sleep", terms_texts.sleep_of),
}


class _WrongError(Exception):
    """An annotation does not count; the text says why."""


def wishes_of(annotations: Mapping[str, str], containers: Iterable[str]) -> Wishes:
    """What annotations of a pod with these containers say. What is wrong is as if it were not there."""
    names = tuple(containers)
    of_pod, aliases = Terms(), dict.fromkeys(names, Terms())
    of_containers = dict(aliases)
    problems: list[Problem] = []
    for key, value in sorted(annotations.items()):
        try:
            if key.startswith(_PREFIX):
                container, name = _split(key.removeprefix(_PREFIX))
                if container is None:
                    of_pod = _with(of_pod, name, value)
                else:
                    _check_container(container, names)
                    of_containers[container] = _with(of_containers[container], name, value)
            elif (alias := _alias(key)) is not None:
                container, name = alias
                _check_container(container, names)
                aliases[container] = _with(aliases[container], name, value)
        except _WrongError as error:
            problems.append(Problem(key, str(error)))
    terms = {"": of_pod} | {name: of_containers[name].over(of_pod).over(aliases[name]) for name in names}
    unfit: list[Problem] = []
    for name, asked in terms.items():
        counting = annotations.keys() - {problem.key for problem in problems}
        terms[name], wrong = _fitting(asked, name, counting)
        unfit += [problem for problem in wrong if problem not in unfit]
    said = {name: asked for name, asked in terms.items() if asked.said()}
    counting = annotations.keys() - {problem.key for problem in (*problems, *unfit)}
    return Wishes(said, (*problems, *unfit), frozenset(counting))


def _key_of(container: str, field: str, counting: Set[str]) -> str:
    """Of the annotations that count the one that says one of the terms of a container; empty: none does."""
    name = next(name for name, key in _KEYS.items() if key.field == field)
    keys = [f"{_PREFIX}{_CONTAINER}{container}.{name}", f"{_PREFIX}{name}"]
    keys += [f"{_NVIDIA}{container}.{alias}" for alias, meant in _ALIASES.items() if meant == name]
    return next((key for key in keys if key in counting), "")


def _split(text: str) -> tuple[str | None, str]:
    """The container that a key names (None: none) and what it says of it."""
    if not text.startswith(_CONTAINER):
        return None, text
    container, _, name = text.removeprefix(_CONTAINER).partition(".")
    return container, name


def _alias(key: str) -> tuple[str, str] | None:
    """The same of NVIDIA's keys; None for all other keys."""
    if not key.startswith(_NVIDIA):
        return None
    container, _, name = key.removeprefix(_NVIDIA).partition(".")
    return (container, _ALIASES[name]) if name in _ALIASES else None


def _with(terms: Terms, name: str, value: str) -> Terms:
    if (key := _KEYS.get(name)) is None:
        allowed = ", ".join(_KEYS)
        raise _WrongError(
            f"nvshare knows no such annotation; {_PREFIX}NAME and {_PREFIX}container.CONTAINER.NAME with "
            f"one of these names are: {allowed}"
        )
    text = value.strip()
    try:
        return replace(terms, **{key.field: key.read(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")})
    except ValueError as error:
        raise _WrongError(str(error)) from None


def _check_container(container: str, names: tuple[str, ...]) -> None:
    if container not in names:
        known = ", ".join(names[:_MOST_NAMED])
        raise _WrongError(f"the pod has no container {container[:_LONGEST]!r}; it has {known}")


def _fitting(terms: Terms, container: str, counting: Set[str]) -> tuple[Terms, list[Problem]]:
    """The terms without a memory request that is above the memory limit, and what is to be said of that.

    ``counting``: the keys of the annotations that count.
    """
    limit, request = terms.memory_limit_bytes, terms.memory_request_bytes
    if limit is None or request is None or request <= limit:
        return terms, []
    key = _key_of(container, "memory_request_bytes", counting)
    message = f"a memory request of {display.size(request)} is above the memory limit of {display.size(limit)}"
    return replace(terms, memory_request_bytes=None), [Problem(key, message)]

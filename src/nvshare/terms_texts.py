"""What a container may have, and how people write it: in the environment, on command lines, in Kubernetes. Pure.

Each function gives the value that a text means; ValueError says what would be one. The library reads the same texts in
``shim/csrc/process/terms.c``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from nvshare import sizes

PRIORITIES: Final = ("low", "normal", "high")
WHEN_FULL: Final = ("wait", "refuse")
SLEEP: Final = ("never", "pressure", "idle")
BACKENDS: Final = ("swap", "managed", "native")
ON_MISSING: Final = ("wait", "run", "fail")

_NUMBER = r"([0-9]+(?:\.[0-9]{1,3})?)"
_WEIGHT = re.compile(_NUMBER)
_PERCENT = re.compile(f"{_NUMBER}%?")
_CONTAINER = re.compile(r"[A-Za-z0-9._-]{1,47}")
_GANG = re.compile(r"[!-9;-~]+|[!-~]+:([0-9]{1,9})")
_MOST_PROCESSES = 64
_LEAST_WEIGHT, _MOST_WEIGHT = 0.01, 1000.0
_LEAST_PERCENT = 0.1


@dataclass(frozen=True, slots=True)
class Terms:
    """What a container or a claim is to have, as far as it was said; None: nothing."""

    weight: float | None = None
    priority: str | None = None
    compute_limit: float | None = None
    """A share of the device's time: above 0, up to 1."""
    memory_limit_bytes: int | None = None
    memory_request_bytes: int | None = None
    when_full: str | None = None
    sleep: str | None = None

    def over(self, others: Terms) -> Terms:
        """These, and those of the others that are not said here."""
        return Terms(**(others.said() | self.said()))

    def said(self) -> dict[str, Any]:
        """What is said, by the fields' names."""
        values = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in values if value is not None}


def weight_of(text: str) -> float:
    """The weight that a text means."""
    if not _WEIGHT.fullmatch(text) or not _LEAST_WEIGHT <= float(text) <= _MOST_WEIGHT:
        raise ValueError(f"{text!r} is no weight; a number from {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g} is")
    return float(text)


def priority_of(text: str) -> str:
    """The priority that a text means, which is that text."""
    if text not in PRIORITIES:
        raise ValueError(f"{text!r} is no priority; {', '.join(PRIORITIES)} are")
    return text


def when_full_of(text: str) -> str:
    """What a text says that becomes of memory asked for which only others' ends could free; it is that text."""
    return _one_of(WHEN_FULL, text)


def sleep_of(text: str) -> str:
    """What a text says of when a process may leave its devices altogether; it is that text."""
    return _one_of(SLEEP, text)


def backend_of(text: str) -> str:
    """What a text says of how memory is kept; it is that text."""
    return _one_of(BACKENDS, text)


def on_missing_of(text: str) -> str:
    """What a text says that a program does while no scheduler was found; it is that text."""
    return _one_of(ON_MISSING, text)


def _one_of(words: tuple[str, ...], text: str) -> str:
    if text not in words:
        raise ValueError(f"{text!r} is none of {', '.join(words)}")
    return text


def share_of(text: str) -> float:
    """The share of a device's time that a percentage means, in thousandths of it; above 0, up to 1."""
    match = _PERCENT.fullmatch(text)
    if match is None or not _LEAST_PERCENT <= float(match[1]) <= 100:
        raise ValueError(f"{text!r} is no percentage from {_LEAST_PERCENT:g} to 100, such as 30 or 30%")
    return int(round(float(match[1]) * 1000) / 100) / 1000


def memory_of(text: str) -> int:
    """The bytes that a limit or a request means; zero is neither."""
    if not (size_bytes := sizes.size_of(text)):
        raise ValueError(f"{text!r} is nothing; leave it out where there is to be none")
    return size_bytes


def container_of(text: str) -> str:
    """The name of a container that a text means, which is that text."""
    if not _CONTAINER.fullmatch(text):
        raise ValueError(f"{text!r} is no name; 1 to 47 letters, digits, dots, - and _ are")
    return text


def gang_of(text: str) -> str:
    """The name of a gang, with or without how many processes it has, that a text means; which is that text."""
    match = _GANG.fullmatch(text)
    if match is None or not (match[1] is None or 2 <= int(match[1]) <= _MOST_PROCESSES):
        raise ValueError(
            f"{text!r} is neither NAME nor NAME:SIZE with 2 to {_MOST_PROCESSES} processes; "
            "a NAME is made of visible ASCII characters"
        )
    return text

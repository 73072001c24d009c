"""How people write what a container may have: in the environment, on command lines. Pure.

Each function gives the value that a text means; ValueError says what would be one. The library reads the same texts in
``shim/csrc/process/terms.c``.
"""

from __future__ import annotations

import re
from typing import Final

from nvshare import sizes

PRIORITIES: Final = ("low", "normal", "high")
WHEN_FULL: Final = ("wait", "refuse")
SLEEP: Final = ("never", "pressure", "idle")

_NUMBER = r"([0-9]+(?:\.[0-9]{1,3})?)"
_WEIGHT = re.compile(_NUMBER)
_PERCENT = re.compile(f"{_NUMBER}%?")
_CONTAINER = re.compile(r"[A-Za-z0-9._-]{1,47}")
_GANG = re.compile(r"[!-9;-~]+|[!-~]+:([0-9]{1,9})")
_MOST_PROCESSES = 64
_LEAST_WEIGHT, _MOST_WEIGHT = 0.01, 1000.0
_LEAST_PERCENT = 0.1


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
    if text not in WHEN_FULL:
        raise ValueError(f"{text!r} is none of {', '.join(WHEN_FULL)}")
    return text


def sleep_of(text: str) -> str:
    """What a text says of when a process may leave its devices altogether; it is that text."""
    if text not in SLEEP:
        raise ValueError(f"{text!r} is none of {', '.join(SLEEP)}")
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
        raise ValueError(f"{text!r} is neither NAME nor NAME:SIZE with 2 to {_MOST_PROCESSES} processes")
    return text

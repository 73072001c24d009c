"""How a variable of the environment that is on or off is written. Pure.

The library reads its own in ``config.c`` of ``shim/csrc/process/``; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

WORDS = {"0": False, "false": False, "no": False, "off": False, "1": True, "true": True, "yes": True, "on": True}
"""Whatever their case."""


def meaning_of(text: str) -> bool:
    """Whether it says on or off; ValueError: it is none of the words."""
    if (known := WORDS.get(text.lower())) is None:
        raise ValueError(f"{text!r} is not one of {', '.join(WORDS)}")
    return known


def read(name: str, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Whether a switch is on, and what is to be said of its value; empty: nothing.

    Not set, or nothing in it: off. In the original nvshare any value was on, so what is none of the words is.
    """
    value = environment.get(name)
    if not value:
        return False, ""
    try:
        return meaning_of(value), ""
    except ValueError:
        return True, f"{name}={value} is not one of {', '.join(WORDS)}; it counts as on"

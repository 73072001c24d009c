"""How people write a number, everywhere: in the digits of ASCII, and without what only Python takes. Pure."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"[0-9.eE+-]+")
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9a-zA-Z]+")


def number_of(text: str | float) -> float:
    """The number that a text such as ``30``, ``2.5`` or ``1e3`` means; ValueError: it means none.

    An option's default comes here as well, and is a number already.
    """
    if isinstance(text, str) and not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    return float(text)


def whole_number_of(text: str, base: int = 10) -> int:
    """The whole number that a text means; ValueError: it means none. ``base`` as of int: 0 takes ``0x1e``, too."""
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text, base)

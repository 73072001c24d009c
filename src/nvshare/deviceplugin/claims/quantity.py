"""Amounts as the Kubernetes API writes them. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST: Final = (1 << 63) - 1
"""The API has none above this."""


def whole(text: str) -> int:
    """The amount that a quantity means, rounded up to a whole number; ValueError for a text that means none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    amount = Fraction(match["number"]) * _factor(match["suffix"] or "")
    if not 0 <= amount <= _MOST:
        raise ValueError(f"{text!r} is not from 0 to {_MOST}")
    return -(-amount.numerator // amount.denominator)


def written(number: int) -> str:
    """As the API server writes a number from 0 itself: with the largest unit that leaves no fraction."""
    unit = ""
    for larger in _BINARY:
        if number == 0 or number % 1024:
            break
        number, unit = number // 1024, larger
    return f"{number}{unit}"


def _factor(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix])
    return Fraction(10) ** (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:] or "0"))

"""How people write a number."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from nvshare.numbers import number_of, whole_number_of


@pytest.mark.parametrize(("text", "number"), [("30", 30.0), ("2.5", 2.5), (".5", 0.5), ("-1", -1.0), ("1e3", 1000.0)])
def test_numbers(text: str, number: float) -> None:
    """What a text means."""
    assert number_of(text) == number


def test_whole_numbers() -> None:
    """As in C a base of 0 takes more than one."""
    assert (whole_number_of("30"), whole_number_of("-3"), whole_number_of("0x1e", 0)) == (30, -3, 30)


@pytest.mark.parametrize("text", ["", " 5", "5 ", "5\n", "1_000", "\u0663", "\u00b2", "soon", "1-2"])
@pytest.mark.parametrize("meaning", [number_of, whole_number_of, lambda text: whole_number_of(text, 0)])
def test_what_is_none(meaning: Callable[[str], float], text: str) -> None:
    """Python would take most of them."""
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        meaning(text)


@pytest.mark.parametrize("text", ["nan", "inf", "infinity"])
def test_words(text: str) -> None:
    """They are none."""
    with pytest.raises(ValueError, match=text):
        number_of(text)

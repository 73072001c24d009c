"""How people write a size, in Python."""

from __future__ import annotations

import re

import pytest

from nvshare.sizes import size_of
from tests.size_table import size_table

SAID = {
    "no size": " is no size; 8Gi",
    "too small": "too small for anything",
    "too large": "is more than any machine has",
}


@pytest.mark.parametrize(("text", "meaning"), size_table())
def test_the_table(text: str, meaning: str) -> None:
    """A text means the bytes that the table says, or the error has the text and says what is wrong with it."""
    if meaning not in SAID:
        assert size_of(text) == int(meaning)
        return
    with pytest.raises(ValueError, match=SAID[meaning]) as error:
        size_of(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "end"), [("20", "; 20GiB?"), ("8192", "; 8192MiB?"), ("20K", "anything"), ("0.001G", "anything")]
)
def test_the_unit_that_is_missing(text: str, end: str) -> None:
    """A number that means too few bytes to be meant is shown with the unit that it may lack."""
    with pytest.raises(ValueError, match=f"{re.escape(end)}$"):
        size_of(text)

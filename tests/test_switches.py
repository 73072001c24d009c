"""Variables that are on or off."""

from __future__ import annotations

import pytest

from nvshare import switches


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"X": ""}, False),
        ({"X": "0"}, False),
        ({"X": "Off"}, False),
        ({"X": "1"}, True),
        ({"X": "YES"}, True),
    ],
)
def test_words(environment: dict[str, str], on: bool) -> None:
    """They say on or off, whatever their case; without a word it is off."""
    assert switches.read("X", environment) == (on, "")


def test_what_is_no_word() -> None:
    """It counts as on, as in the original, and what to write is said."""
    on, complaint = switches.read("X", {"X": "2"})
    assert on
    assert complaint == "X=2 is not one of 0, false, no, off, 1, true, yes, on; it counts as on"

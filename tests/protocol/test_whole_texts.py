"""Texts that are longer than a frame has room for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.protocol import whole_texts, wire

WithText = wire.Refused | wire.Reason | wire.RefuseGrowth
Make = Callable[[str], WithText]

TEXTS = st.text(st.characters(codec="utf-8").filter(str.isprintable), max_size=600)
makers = pytest.mark.parametrize(
    "make",
    [
        lambda text: wire.Refused(text, final=True),
        lambda text: wire.Reason(text, 1),
        lambda text: wire.RefuseGrowth(7, text),
    ],
    ids=["refused", "reason", "refuse-growth"],
)


def decoded(data: bytes) -> tuple[list[wire.Frame], str]:
    """The frames that bytes are, and the text of all of them together."""
    size = wire.FRAME_BYTES
    assert len(data) % size == 0
    found = [wire.decode(data[place : place + size]) for place in range(0, len(data), size)]
    return found, "".join(frame.text for frame in found if isinstance(frame, wire.Text | WithText))


@makers
@given(text=TEXTS)
def test_to_a_peer_that_knows_pieces(make: Make, text: str) -> None:
    """Pieces come before the frame, whose text is the last of them; all else is the frame's. Nothing is missing."""
    (*pieces, last), whole = decoded(whole_texts.encode(make(text), 5))
    assert all(isinstance(piece, wire.Text) for piece in pieces)
    assert isinstance(last, WithText)
    assert last == make(last.text)
    if len(text.encode()) <= whole_texts.MOST_BYTES:
        assert whole == text
    else:
        assert whole.endswith("...")
        assert text.startswith(whole[:-3])
        assert whole_texts.MOST_BYTES - 4 < len(whole.encode()) <= whole_texts.MOST_BYTES


@makers
@given(text=TEXTS)
def test_to_a_peer_of_before(make: Make, text: str) -> None:
    """It gets the one frame that it knows, and sees by dots that there was more."""
    (frame,), whole = decoded(whole_texts.encode(make(text), 4))
    assert frame == make(whole)
    assert whole == text if len(text.encode()) < wire.TEXT_BYTES else whole.endswith("...")


def test_other_frames() -> None:
    """They are as they are."""
    assert whole_texts.encode(wire.ReqLock(), 5) == wire.encode(wire.ReqLock())

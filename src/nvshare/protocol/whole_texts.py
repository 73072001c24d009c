"""Frames whose texts are longer than a frame has room for: the other pieces go before it, to peers that know them."""

from __future__ import annotations

from dataclasses import replace

from nvshare.protocol import wire
from nvshare.protocol.texts import field_of

LEVEL: int = 5
"""From which on a peer puts pieces together."""
MOST_BYTES: int = wire.WHOLE_TEXT_BYTES - 1
"""Of UTF-8 that a text may have."""
_CUT = "..."


def longest(level: int) -> int:
    """The bytes of UTF-8 that a text may have for a peer of this level."""
    return MOST_BYTES if level >= LEVEL else wire.TEXT_BYTES - 1


def encode(frame: wire.Frame, level: int) -> bytes:
    """One or more frames for a peer of this level; dots at the end of a text show that it was too long for it."""
    match frame:
        case wire.Refused(text=text) | wire.Reason(text=text) | wire.RefuseGrowth(text=text):
            pieces = _pieces(_fitting(text, longest(level)))
            before = (wire.encode(wire.Text(piece)) for piece in pieces[:-1])
            return b"".join((*before, wire.encode(replace(frame, text=pieces[-1]))))
        case _:
            return wire.encode(frame)


def _fitting(text: str, most_bytes: int) -> str:
    if len(text.encode()) <= most_bytes:
        return text
    return field_of(text, most_bytes + 1 - len(_CUT)).decode() + _CUT


def _pieces(text: str) -> list[str]:
    """Each of them fits a frame; there is one at least."""
    pieces = [field_of(text, wire.TEXT_BYTES).decode()]
    while rest := text[sum(map(len, pieces)) :]:
        pieces.append(field_of(rest, wire.TEXT_BYTES).decode())
    return pieces

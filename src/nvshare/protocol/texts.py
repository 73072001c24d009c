"""Texts in fields of frames, which are UTF-8 with a NUL at the end."""

from __future__ import annotations


def field_of(text: str, size: int) -> bytes:
    """What fits a field of so many bytes, whole characters of it."""
    cut = text.encode("utf-8", "replace")[: size - 1]
    return cut.decode("utf-8", "ignore").encode("utf-8")


def text_in(field: bytes) -> str:
    """Up to the first NUL; what a terminal would obey rather than show is replaced."""
    text = field.split(b"\0", 1)[0].decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "�" for character in text)

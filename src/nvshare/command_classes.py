"""Commands whose complaints about a wrong value are in words for whoever typed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_OF_THE_LIBRARY = "Value error, "
"""What the library that typer checks values with puts before every message."""


class Command(TyperCommand):
    """One command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left; typer.BadParameter for a wrong one."""
        with _plain_words():
            return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A program with commands and options of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left; typer.BadParameter for a wrong one."""
        with _plain_words():
            return super().parse_args(ctx, args)


@contextmanager
def _plain_words() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        error.message = error.message.removeprefix(_OF_THE_LIBRARY)
        raise

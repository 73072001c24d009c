"""What all commands of people have in common on their command lines."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperOption

from nvshare import command_classes


class Command(command_classes.Command):
    """One command. An option with a value is there once: of two, one would count for nothing without a word.

    The daemons take the last one: those who deploy them put options behind those that are there.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left; typer.BadParameter for a wrong one, or one that is there twice."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for parameter, times in Counter(given).items():
            # A shell that completes what is not whole yet is told what it can be.
            if times > 1 and not ctx.resilient_parsing and isinstance(parameter, TyperOption) and not parameter.is_flag:
                raise typer.BadParameter("it is there more than once; say it once", ctx, parameter)
        return super().parse_args(ctx, args)

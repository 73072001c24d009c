"""What all commands of people refuse: an option that is there twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from click.testing import CliRunner
from typer.core import TyperOption

from nvshare.ctl.command_line import build
from nvshare.ctl.kubectl.command_line import build as build_plugin
from nvshare.ctl.nvsharectl.command_line import build as build_original

PROGRAMS = {
    "nvshare-ctl": typer.main.get_command(build()),
    "kubectl nvshare": typer.main.get_command(build_plugin()),
    "nvsharectl": typer.main.get_command(build_original()),
}


def options(of: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """Every option with a value of every command, behind its command's words."""
    for name, command in getattr(of, "commands", {}).items():
        yield from options(command, *words, name)
    for parameter in of.params:
        if isinstance(parameter, TyperOption) and not parameter.is_flag and not parameter.hidden:
            yield *words, parameter.opts[-1]


@pytest.mark.parametrize(
    ("program", "words"), [(name, words) for name, program in PROGRAMS.items() for words in options(program)]
)
def test_twice(program: str, words: tuple[str, ...]) -> None:
    """None of the two counts: nothing is done, and the option is named."""
    *command, option = words
    done = CliRunner(env={"COLUMNS": "120"}).invoke(
        PROGRAMS[program], [*command, option, "3", option, "4", "x", "y"], obj={}
    )
    assert done.exit_code == 2
    assert f"'{option}'" in done.output
    assert "it is there more than once; say it once" in done.output


def test_a_flag() -> None:
    """Twice it says what it says once."""
    done = CliRunner().invoke(PROGRAMS["nvshare-ctl"], ["demo", "--many", "--many", "--real"], obj={})
    assert "--many is for a simulated GPU, and not with --real" in " ".join(done.output.replace("│", " ").split())

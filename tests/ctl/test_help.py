"""What nvshare-ctl says of itself: help, version, completion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from click.testing import CliRunner

from nvshare.admin import admin_pb2
from nvshare.ctl.__main__ import NAME
from nvshare.ctl.command_line import build
from nvshare.ctl.commands.set_command import PolicyChoice
from nvshare.ctl.options.terms import TERMS
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.kubectl.plugin import plugin
from tests.ctl.program import ctl


def commands(of: Any, *words: str) -> Iterator[list[str]]:
    """Every command and every group of commands, as words."""
    yield list(words)
    for name, command in getattr(of, "commands", {}).items():
        yield from commands(command, *words, name)


COMMANDS = list(commands(typer.main.get_command(build())))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help(run_dir: RunDir, command: list[str]) -> None:
    """Every command has help that fits 80 columns, and the same with -h."""
    long = ctl(run_dir, *command, "--help")
    assert (long.returncode, long.stderr) == (0, "")
    short = CliRunner(env={"COLUMNS": "80"}).invoke(typer.main.get_command(build()), [*command, "-h"], prog_name=NAME)
    assert long.stdout == short.stdout
    assert " ".join([f"Usage: {NAME}", *command]) in long.stdout
    assert all(len(line) <= 80 for line in long.stdout.splitlines())
    assert "…" not in long.stdout
    typed = [line for line in long.stdout.splitlines() if line.lstrip().startswith((NAME, "LD_PRELOAD="))]
    assert all(line.startswith("   ") for line in typed), "examples are set off from the text"


def test_terms_have_defaults(run_dir: RunDir) -> None:
    """Each option for what a program may have says which variable counts without it, and what without that."""
    text = " ".join(ctl(run_dir, "run", "--help").stdout.replace("│", " ").split())
    for term in TERMS:
        _, _, option = text.partition(f"--{term.name} ")
        assert f"Default: ${term.variable}, else " in option.partition(" --run-dir ")[0], term.name


def test_intervals_have_bounds(run_dir: RunDir) -> None:
    """Those of both screens, as the parser has them."""
    for text in (ctl(run_dir, "top", "--help").stdout, plugin(None, "top", "--help").stdout):
        assert "0.1 to 3600 s" in " ".join(text.replace("│", " ").split())


def test_policies_stand_below_each_other(run_dir: RunDir) -> None:
    """Each begins where the others do."""
    lines = ctl(run_dir, "set", "policy", "--help").stdout.splitlines()
    for policy in PolicyChoice:
        assert any(line.startswith(f"   {policy} ") for line in lines), policy


def test_exit_codes_are_documented(run_dir: RunDir) -> None:
    """The help names the exit codes that scripts may rely on."""
    assert "3 no scheduler runs" in " ".join(ctl(run_dir, "--help").stdout.split())
    assert "4 not permitted" in " ".join(ctl(run_dir, "status", "--help").stdout.split())
    assert "127 it was not found" in " ".join(ctl(run_dir, "run", "--help").stdout.split())


def test_version(run_dir: RunDir) -> None:
    """One line with the name."""
    done = ctl(run_dir, "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("nvshare-ctl ")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("nvshare-ctl st", ["status"]),
        ("nvshare-ctl set p", ["policy", "priority"]),
        ("nvshare-ctl set m", ["memory-limit", "memory-request"]),
        ("nvshare-ctl set policy ex", ["exclusive"]),
        ("nvshare-ctl status -o y", ["yaml"]),
    ],
)
def test_completion(run_dir: RunDir, typed: str, offered: list[str]) -> None:
    """A shell that was set up with --install-completion gets commands and values offered."""
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = ctl(run_dir, _NVSHARE_CTL_COMPLETE="complete_bash", **words)
    assert sorted(done.stdout.split()) == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("nvshare-ctl set priority h", ["high"]),
        ("nvshare-ctl set when-full ", ["none", "refuse", "wait"]),
        ("nvshare-ctl set sleep ", ["idle", "never", "none", "pressure"]),
        ("nvshare-ctl set weight n", ["none"]),
        ("nvshare-ctl run --priority l", ["low"]),
        ("nvshare-ctl run --when-full w", ["wait"]),
        ("nvshare-ctl run --sleep p", ["pressure"]),
        ("nvshare-ctl set policy --device 0", ["0", "00000000-0000-0000-0000-000000000000"]),
        ("nvshare-ctl top --device GPU-6", ["GPU-6ec4f5a1-0000-0000-0000-000000000000"]),
        ("nvshare-ctl set weight 2 t", ["train"]),
        ("nvshare-ctl set weight 2 e", ["eval@0", "eval@1000"]),
        ("nvshare-ctl run --name t", ["train"]),
    ],
)
def test_completion_of_values(run_dir: RunDir, answers: Answers, typed: str, offered: list[str]) -> None:
    """Of GPUs and containers those that the scheduler knows; a name that two users have with whose it is."""
    names = ["train@0", "train@0", "eval@0", "eval@1000", ""]
    first, second = answers.status.devices
    first.index, first.uuid = "0", "GPU-6ec4f5a1-0000-0000-0000-000000000000"
    second.index, second.uuid = "", "00000000-0000-0000-0000-000000000000"
    del first.clients[:]
    first.clients.extend(admin_pb2.Client(id=number, member_of=name) for number, name in enumerate(names, 1))
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = ctl(run_dir, _NVSHARE_CTL_COMPLETE="complete_bash", **words)
    assert (sorted(done.stdout.split()), done.stderr) == (offered, "")


def test_completion_without_a_scheduler(run_dir: RunDir) -> None:
    """Nothing is offered, and nothing is said into the line that a person types."""
    words = {"COMP_WORDS": "nvshare-ctl set weight 2 ", "COMP_CWORD": "4"}
    done = ctl(run_dir, _NVSHARE_CTL_COMPLETE="complete_bash", **words)
    assert (done.stdout.strip(), done.stderr) == ("", "")

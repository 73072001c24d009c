"""What nvshare-ctl says of itself: help, version, completion."""

from __future__ import annotations

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import ctl

COMMANDS = [
    [],
    ["run"],
    ["status"],
    ["top"],
    ["set"],
    ["set", "quantum"],
    ["set", "policy"],
    ["service"],
    ["service", "install"],
    ["service", "uninstall"],
    ["service", "status"],
    ["demo"],
    ["simulate"],
    ["library-path"],
    ["cdi"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help(run_dir: RunDir, command: list[str]) -> None:
    """Every command has help that fits 80 columns, and the same with -h."""
    long, short = ctl(run_dir, *command, "--help"), ctl(run_dir, *command, "-h")
    assert (long.returncode, long.stderr) == (0, "")
    assert long.stdout == short.stdout
    assert " ".join(["Usage: nvshare-ctl", *command]) in long.stdout
    assert all(len(line) <= 80 for line in long.stdout.splitlines())
    assert "…" not in long.stdout


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

"""What the programs do with terminals and files that can't take what they write."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers
from tests.ctl.program import environment

FULL = Path("/dev/full")
PROGRAMS = {
    "nvshare-ctl": "nvshare.ctl",
    "kubectl nvshare": "nvshare.ctl.kubectl",
    "nvshare-scheduler": "nvshare.scheduler",
    "nvshare-device-plugin": "nvshare.deviceplugin",
}
COMMANDS = [
    ["status"],
    ["status", "-o", "json"],
    ["status", "-o", "yaml"],
    ["set", "quantum", "3"],
    ["set", "policy", "auto"],
    ["library-path"],
    ["cdi"],
    ["--version"],
    ["status", "--help"],
]


def run(
    run_dir: RunDir,
    module: str,
    *arguments: str,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """A program in a fresh process."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command,
        env=environment(run_dir, **more),
        stdout=stdout,
        stderr=stderr,
        text=True,
        errors="replace",
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.usefixtures("libraries", "answers")
def test_full_disk(run_dir: RunDir, command: list[str]) -> None:
    """One line that says so, and exit code 1."""
    with FULL.open("wb") as full:
        done = run(run_dir, "nvshare.ctl", *command, stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr == "nvshare-ctl: the output can't be written: No space left on device\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_full_disk_for_every_program(run_dir: RunDir, name: str) -> None:
    """The other programs are as clear about it."""
    with FULL.open("wb") as full:
        done = run(run_dir, PROGRAMS[name], "--help", stdout=full.fileno())
    assert (done.returncode, done.stderr) == (1, f"{name}: the output can't be written: No space left on device\n")


def test_full_disk_for_errors(run_dir: RunDir) -> None:
    """Nobody can read the complaint; scripts still get its exit code."""
    with FULL.open("wb") as full:
        assert run(run_dir, "nvshare.ctl", "status", stderr=full.fileno()).returncode == 3


@pytest.mark.parametrize("clients", [1, 1000], ids=["little", "much"])
@pytest.mark.parametrize("command", [["status"], ["status", "-o", "json"], ["status", "--help"]], ids=" ".join)
def test_reader_that_went_away(run_dir: RunDir, answers: Answers, command: list[str], clients: int) -> None:
    """As in ``nvshare-ctl status | head -1``: nothing is said, and it ends as others do, however much it had to say."""
    answers.status.devices[0].clients.extend([answers.status.devices[0].clients[0]] * (clients - 1))
    done = run_unread(run_dir, "nvshare.ctl", *command)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_reader_that_went_away_for_every_program(run_dir: RunDir, name: str) -> None:
    """Those whose command line another process reads show what a shell would show of that."""
    done = run_unread(run_dir, PROGRAMS[name], "--help")
    assert (done.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE), done.stderr) == (True, "")


def run_unread(run_dir: RunDir, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program whose output nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return run(run_dir, module, *arguments, stdout=writer)
    finally:
        os.close(writer)


PLAIN = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "latin-1"},
]


@pytest.mark.parametrize("variables", PLAIN, ids=str)
def test_terminal_without_our_characters(run_dir: RunDir, answers: Answers, variables: dict[str, str]) -> None:
    """The table has the same columns, with plain characters in the place of ours; a name's own become ``?``."""
    answers.status.devices[0].clients[0].command = "/home/somebody/projects/bücher_和.py"
    done = run(run_dir, "nvshare.ctl", "status", **variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert "memory  ########## clients" in done.stdout
    assert "~/b" in done.stdout
    if "latin-1" not in variables.values():
        assert done.stdout.isascii()
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.usefixtures("libraries", "answers")
def test_ascii_for_every_command(run_dir: RunDir, command: list[str]) -> None:
    """No command needs more than ASCII."""
    done = run(run_dir, "nvshare.ctl", *command, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_in_short(run_dir: RunDir, name: str) -> None:
    """Every program knows -h."""
    long, short = run(run_dir, PROGRAMS[name], "--help"), run(run_dir, PROGRAMS[name], "-h")
    assert (short.returncode, short.stderr) == (0, "")
    assert short.stdout == long.stdout


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nvshare-ctl", ["status", "-o", "fair"]),
        ("nvshare-ctl", ["set", "policy", "fair"]),
        ("kubectl nvshare", ["status", "-o", "fair"]),
        ("nvshare-scheduler", ["--policy", "fair"]),
        ("nvshare-scheduler", ["--log-level", "fair"]),
        ("nvshare-device-plugin", ["--log-level", "fair"]),
    ],
)
def test_wrong_choice(run_dir: RunDir, name: str, arguments: list[str]) -> None:
    """It is named with what is allowed, without words of the library that found it."""
    done = run(run_dir, PROGRAMS[name], *arguments, COLUMNS="200")
    assert done.returncode == 2
    assert re.search(r"Invalid value for '[-/' a-z]+': 'fair' is not one of '", done.stderr)


@pytest.mark.parametrize("name", PROGRAMS)
def test_width_that_no_terminal_has(run_dir: RunDir, name: str) -> None:
    """A wrong option is named all the same."""
    done = run(run_dir, PROGRAMS[name], "--bogus", COLUMNS="0")
    assert done.returncode == 2
    assert "--bogus" in done.stderr


@pytest.mark.parametrize("text", [":\n  - {", "[]", "clusters: 3", "\0"])
def test_file_that_is_no_kubeconfig(run_dir: RunDir, tmp_path: Path, text: str) -> None:
    """One line, whatever is in it."""
    file = tmp_path / "config"
    file.write_text(text)
    done = run(run_dir, PROGRAMS["kubectl nvshare"], "status", KUBECONFIG=str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kubectl nvshare: no cluster to ask: ")
    assert done.stderr.count("\n") == 1

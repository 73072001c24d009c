"""Paths on command lines: what is empty is a variable that was not set, and not the present folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.ctl.errors import ExitCode
from nvshare.path_option import path_of
from nvshare.paths import RunDir
from tests.ctl.program import ctl


def test_not_utf8(run_dir: RunDir) -> None:
    """A name that no message could have is refused; one that is in a value is shown as far as it can be."""
    done = ctl(run_dir, "run", "--run-dir", f"{run_dir.root}/\udcff", "--", "true")
    assert (done.returncode, "is not UTF-8" in done.stderr) == (2, True)
    done = ctl(run_dir, "simulate", "--gpus", "\udcff", "--", "true")
    assert (done.returncode, "is not understood" in done.stderr) == (2, True)
    done = ctl(run_dir, "simulate", "--gpus", "1xGPU \udcff:1GiB", "--", "true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "--run-dir", ""],
        ["run", "--run-dir", "", "--", "true"],
        ["cdi", "--run-dir", ""],
        ["jupyter", "install", "--prefix", ""],
        ["demo", "--output", ""],
        ["simulate", "--dir", "", "--", "true"],
        ["doctor", "--output-file", ""],
    ],
    ids=" ".join,
)
def test_no_path(run_dir: RunDir, arguments: list[str]) -> None:
    """It is said, and nothing is done."""
    done = ctl(run_dir, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'' is no path" in done.stderr


@pytest.mark.parametrize("path", ["file/a/b", "folder/" * 1000], ids=["below a file", "too long"])
@pytest.mark.parametrize("command", [["status"], ["set", "weight", "2", "train"]], ids=" ".join)
def test_a_place_that_can_not_be(run_dir: RunDir, command: list[str], path: str) -> None:
    """One line that has the reason and the option, wherever the place was named."""
    (run_dir.root / "file").touch()
    place = f"{run_dir.root}/{path}"
    named, found = ctl(run_dir, *command, "--run-dir", place), ctl(run_dir, *command, NVSHARE_RUN_DIR=place)
    assert (named.returncode, named.stdout, named.stderr) == (found.returncode, found.stdout, found.stderr)
    assert (named.returncode, named.stdout, named.stderr.count("\n")) == (1, "", 1)
    assert "can't be looked at: " in named.stderr
    assert "choose another --run-dir" in named.stderr


def test_the_present_folder_is_gone(run_dir: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is named from there is nowhere, and that is said; without such a name nobody asks for it."""
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    for done in ctl(run_dir, "status", "--run-dir", "x"), ctl(run_dir, "status", NVSHARE_RUN_DIR="x"):
        assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
        assert "'x' is nowhere, since" in done.stderr
    assert ctl(run_dir, "status").returncode == ExitCode.NO_SCHEDULER


def test_a_default_is_a_path_already() -> None:
    """It comes to the parser as what is typed does."""
    assert path_of(Path("demo")) == path_of("demo") == Path("demo")

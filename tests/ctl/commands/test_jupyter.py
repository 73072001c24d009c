"""``nvshare-ctl jupyter install``: where it writes a kernel, and what that one starts."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.ctl.program import COMMAND, ctl, environment
from tests.polling import poll_until

LAUNCHER = """
import json, os, sys
names = ("NVSHARE_MEMORY_LIMIT", "NVSHARE_PRIORITY", "NVSHARE_RUN_DIR")
loaded = "libnvshare" in open("/proc/self/maps").read()
print(json.dumps([sys.argv[1:], [os.environ.get(name) for name in names], loaded]))
"""
"""In the place of ipykernel's module of that name, which needs a connection file that Jupyter writes."""


@pytest.fixture
def install(run_dir: RunDir, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs it for a user whose home is empty, with this Python, which finds a launcher."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "ipykernel_launcher.py").write_text(LAUNCHER)

    def run(*arguments: str, launcher: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        path = environment(run_dir)["PYTHONPATH"]
        more = {"HOME": str(tmp_path / "home"), "PYTHONPATH": f"{path}:{modules}" if launcher else path} | more
        return ctl(run_dir, "jupyter", "install", *arguments, **more)

    return run


@pytest.fixture
def _scheduler_ends(run_dir: RunDir) -> Iterator[None]:
    """The one that a kernel starts."""
    yield
    os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)
    poll_until(lambda: not run_dir.client_socket.exists(), "the scheduler has ended")


def kernel(path: Path) -> dict[str, Any]:
    """What a kernel.json says."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, "home/.local/share/jupyter"),
        ({"XDG_DATA_HOME": "xdg"}, "xdg/jupyter"),
        ({"XDG_DATA_HOME": "xdg", "JUPYTER_DATA_DIR": "data"}, "data"),
    ],
)
def test_for_the_user(
    install: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    variables: dict[str, str],
    place: str,
) -> None:
    """Where Jupyter looks for a user's own kernels."""
    done = install(**{name: str(tmp_path / value) for name, value in variables.items()})
    path = tmp_path / place / "kernels" / "nvshare" / "kernel.json"
    assert (done.returncode, done.stdout) == (0, f"kernel nvshare: {path}\n"), done.stderr
    assert kernel(path)["display_name"] == "Python (nvshare)"


@pytest.mark.usefixtures("_scheduler_ends")
def test_what_it_starts(
    install: Callable[..., subprocess.CompletedProcess[str]], run_dir: RunDir, tmp_path: Path, libraries: Libraries
) -> None:
    """The Python that was named, with the library, the limits and the arguments of Jupyter."""
    options = ("--memory-limit", "64M", "--priority", "low", "--display-name", "Small", "--run-dir", str(run_dir.root))
    done = install("--name", "Small", "--prefix", str(tmp_path), "--python", sys.executable, *options)
    assert done.returncode == 0, done.stderr
    written = kernel(tmp_path / "share" / "jupyter" / "kernels" / "small" / "kernel.json")
    assert (written["display_name"], written["language"]) == ("Small", "python")
    command = [word.replace("{connection_file}", "/the/file") for word in written["argv"]]
    variables = environment(run_dir) | {"PYTHONPATH": f"{environment(run_dir)['PYTHONPATH']}:{tmp_path / 'modules'}"}
    del variables["NVSHARE_RUN_DIR"]
    started = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert started.returncode == 0, started.stderr
    assert json.loads(started.stdout) == [["-f", "/the/file"], ["64M", "low", str(run_dir.root)], True]


def test_in_an_environment(install: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """--sys-prefix is that of the kernel's Python, and its link is not followed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True, timeout=60)
    python = tmp_path / "other" / "bin" / "python"
    done = install("--sys-prefix", "--python", str(python))
    assert done.returncode == 0, done.stderr
    written = kernel(tmp_path / "other" / "share" / "jupyter" / "kernels" / "nvshare" / "kernel.json")
    assert str(python) in written["argv"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--user", "--sys-prefix"], 2, "--user and --sys-prefix each name a place; say one of them"),
        (["--prefix", "/x", "--user"], 2, "--user and --prefix each name a place"),
        (["--name", "a b"], 2, "'a b' is no name"),
        (["--name", ".."], 2, "'..' is no name"),
        (["--display-name", ""], 2, "'' is nothing that Jupyter could show"),
        (["--python", ""], 127, "cannot execute '': no such command"),
        (["--memory-limit", "1G", "--memory-request", "2G"], 2, "above the memory limit"),
        (["--python", "/bin/true"], 1, "/bin/true is no Python that works: it said nothing; choose another"),
        (["--python", "/bin/echo"], 1, "/bin/echo is no Python that works"),
        (["--python", "/nowhere/python"], 127, "/nowhere/python: no such file"),
        (["--prefix", "/proc/1"], 1, "/proc/1/share/jupyter/kernels/nvshare/kernel.json can't be written"),
    ],
)
def test_refusals(
    install: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str], code: int, said: str
) -> None:
    """Each says what was wrong."""
    done = install(*arguments, COLUMNS="300")
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_a_variable_that_means_nothing(install: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """What an option leaves to the environment is wrong there as for run."""
    done = install(NVSHARE_WEIGHT="bogus", COLUMNS="300")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Invalid value for NVSHARE_WEIGHT: 'bogus' is no weight" in done.stderr


def test_a_full_disk(install: Callable[..., subprocess.CompletedProcess[str]], run_dir: RunDir, tmp_path: Path) -> None:
    """The kernel of before stays as it is, and nothing is left beside it. A limit does what a full disk does."""
    assert install("--prefix", str(tmp_path)).returncode == 0
    file = tmp_path / "share" / "jupyter" / "kernels" / "nvshare" / "kernel.json"
    before = file.read_text()
    variables = environment(run_dir)
    done = subprocess.run(
        [*COMMAND, "jupyter", "install", "--prefix", str(tmp_path), "--memory-limit", "1G"],
        env=variables | {"PYTHONPATH": f"{variables['PYTHONPATH']}:{tmp_path / 'modules'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"{file} can't be written: File too large; choose a --prefix" in done.stderr
    assert file.read_text() == before
    assert list(file.parent.iterdir()) == [file]


def test_without_ipykernel(install: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The Python is asked before a kernel is written that can't start."""
    done = install(launcher=False)
    assert done.returncode == 1
    assert "No module named 'ipykernel_launcher'" in done.stderr
    assert "-m pip install ipykernel" in done.stderr

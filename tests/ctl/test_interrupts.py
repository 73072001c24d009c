"""Ctrl-C ends the commands without a word, whatever they are doing."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, environment


def _interrupted(run_dir: RunDir, folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, which gets the signal while it imports the module."""
    (folder / f"{module}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError\n")
    variables = environment(run_dir)
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**variables, "PYTHONPATH": f"{folder}:{variables['PYTHONPATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        # Whoever started the tests may ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        pytest.param("typer", ["--help"], id="command line"),
        pytest.param("grpc", ["status"], id="command"),
        pytest.param("yaml", ["status", "--watch"], id="what a command imports first"),
    ],
)
def test_while_modules_are_imported(run_dir: RunDir, tmp_path: Path, module: str, arguments: list[str]) -> None:
    """No traceback, and the process ends by the signal, which a shell shows as 130."""
    done = _interrupted(run_dir, tmp_path, module, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_ignored_signal_stays_ignored(run_dir: RunDir, tmp_path: Path) -> None:
    """As for a program in the background of a script, or one that nohup started."""
    (tmp_path / "yaml.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError('on')\n"
    )
    variables = environment(run_dir)
    done = subprocess.run(
        [*COMMAND, "status"],
        env={**variables, "PYTHONPATH": f"{tmp_path}:{variables['PYTHONPATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.stderr.splitlines()[-1] == "ImportError: on"

"""Programs that are started with closed streams, as some daemons start theirs."""

from __future__ import annotations

import subprocess

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, environment


def started(run_dir: RunDir, closed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """nvshare-ctl, by a shell that closes streams."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *arguments]
    return subprocess.run(command, env=environment(run_dir), capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", [["run"], ["simulate"], ["doctor", "--output-file", "/dev/null"]], ids=" ".join)
@pytest.mark.usefixtures("libraries", "accepting")
def test_a_command(run_dir: RunDir, words: list[str], closed: str) -> None:
    """It is run all the same."""
    assert started(run_dir, closed, *words, "--", "sh", "-c", "exit 7").returncode == 7


@pytest.mark.usefixtures("libraries", "accepting")
def test_what_a_command_finds(run_dir: RunDir) -> None:
    """What was closed, it finds closed."""
    done = started(run_dir, "2>&-", "run", "--", "sh", "-c", "test ! -e /proc/$$/fd/2 && echo closed")
    assert (done.returncode, done.stdout) == (0, "closed\n")


@pytest.mark.parametrize(("words", "code"), [(["status"], 3), (["doctor"], 1), (["library-path", "x"], 2)], ids=str)
@pytest.mark.usefixtures("libraries")
def test_an_answer(run_dir: RunDir, words: list[str], code: int) -> None:
    """What nobody reads does not come out elsewhere."""
    heard = started(run_dir, "", *words)
    assert heard.returncode == code
    for closed, stdout, stderr in ((">&-", "", heard.stderr), ("2>&-", heard.stdout, "")):
        done = started(run_dir, closed, *words)
        assert (done.returncode, done.stderr) == (code, stderr)
        # What doctor finds may be other from time to time.
        assert bool(done.stdout) == bool(stdout)

"""Paths on command lines: what is empty is a variable that was not set, and not the present folder."""

from __future__ import annotations

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import ctl


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

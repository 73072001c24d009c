"""Which tests the commands of the Makefile run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.layout.tree import ROOT

_RUNS_TESTS = re.compile(r"\.venv/bin/python -m (pytest|tests)\b")


def commands(make: str, target: str, arguments: str) -> list[list[str]]:
    """The words of each command of a target that runs tests, whatever make runs these tests."""
    environment = {"PATH": "/usr/bin:/bin", "KUBECONFIG": "/nonexistent"}
    command = [make, "--dry-run", "--directory", str(ROOT), target, f"PYTEST_ARGS={arguments}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return [shlex.split(line) for line in done.stdout.splitlines() if _RUNS_TESTS.match(line)]


def collected(words: list[str]) -> set[str]:
    """The files of the tests that such a command runs."""
    collect = [sys.executable, *words[1:], "--collect-only", "--quiet", "-n", "0"]
    done = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("test", "tests/test_sizes.py"),
        ("check", "tests/test_sizes.py"),
        ("sanitize", "tests/test_sizes.py"),
        ("soak", "tests/chaos/test_chaos.py"),
        ("e2e", "tests/e2e/test_2_swapping.py"),
    ],
)
def test_a_file_that_is_named(tool: Callable[[str], str], target: str, file: str) -> None:
    """It is all that is run of tests, also of those that pytest does not know."""
    [words] = commands(tool("make"), target, f"-x {file}")
    assert collected(words) == {file}


@pytest.mark.parametrize(("target", "folder"), [("check", "layout"), ("sanitize", "sanitize"), ("e2e", "e2e")])
def test_no_file_is_named(tool: Callable[[str], str], target: str, folder: str) -> None:
    """The tests are those of the target's folder."""
    [words] = commands(tool("make"), target, "-x")
    files = collected(words)
    assert files
    assert all(file.startswith(f"tests/{folder}/") for file in files)


def test_soak_without_a_file(tool: Callable[[str], str]) -> None:
    """Options of pytest leave the random drivers in."""
    assert any("tests.random_drivers" in words for words in commands(tool("make"), "soak", "--maxfail 1"))

"""The order of the library's mutexes, as the builds with sanitizers check it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import build_native

CSRC = build_native.SOURCES / "nvshare" / "shim" / "csrc"
SOURCES = [CSRC / "process" / f"{name}.c" for name in ("mutex", "thread", "log")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Path:
    """mutex_order.c with the library's own files, compiled with the check."""
    output = tmp_path_factory.mktemp("order") / "mutex_order"
    source = Path(__file__).parent / "programs" / "mutex_order.c"
    flags = ["-std=gnu11", "-pthread", "-DNVS_CHECK_ORDER", f"-I{CSRC}"]
    subprocess.run([tool("gcc"), *flags, source, *SOURCES, "-o", output], check=True)
    return output


def test_later_ones_are_taken(program: Path) -> None:
    """Who holds a mutex takes those that come later."""
    done = subprocess.run([program, "0", "3", "7", "20"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "taken\n")


@pytest.mark.parametrize("places", [("3", "2"), ("3", "3"), ("0", "20", "7")])
def test_others_end_the_program(program: Path, places: tuple[str, ...]) -> None:
    """An earlier one, or a second one of the same place, ends the program, which says which it was."""
    done = subprocess.run([program, *places], capture_output=True, text=True)
    assert done.returncode < 0
    assert f"a mutex of place {places[-1]} is taken" in done.stderr
    assert "taken\n" not in done.stdout

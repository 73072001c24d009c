"""The program's own virtual memory on the simulated GPU, while it is brought out and in again."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths
from tests.conftest import Libraries
from tests.shim.children import PROGRAMS, ROOT, Children
from tests.shim.swap_scheduler import MIB, SwapScheduler

PROGRAM = PROGRAMS / "virtual_memory.py"


def cases() -> list[str]:
    """The names in the program's table."""
    for node in ast.parse(PROGRAM.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CASES":
            return [name.id for name in ast.walk(node.value or node) if isinstance(name, ast.Name)]
    raise AssertionError


@pytest.fixture
def bare(environment: dict[str, str]) -> dict[str, str]:
    """A program on a simulated GPU, without the library."""
    return environment | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", paths.SIMGPU_DEVICES: "2x16GiB"}


@pytest.fixture
def scheduler(run_dir: paths.RunDir) -> Iterator[SwapScheduler]:
    """Gives a client what it wants and takes it away."""
    with SwapScheduler(run_dir.client_socket) as scheduler:
        yield scheduler


def lines_of(output: str) -> list[str]:
    """Without the steps."""
    return [line for line in output.splitlines() if line != "step"]


def run_stepping(environment: dict[str, str], case: str, at_step: Callable[[], None]) -> list[str]:
    """What the case prints when something happens at each of its steps."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), case],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin
    assert process.stdout
    lines = []
    try:
        for line in process.stdout:
            if line == "step\n":
                at_step()
                process.stdin.write("\n")
                process.stdin.flush()
            else:
                lines.append(line.rstrip("\n"))
    except BaseException:
        process.kill()
        raise
    finally:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    return lines


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", cases())
def test_taken_away_at_every_step(
    bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler, case: str
) -> None:
    """With all memory out between any two calls a program sees what it sees without the library."""
    expected = lines_of(Children(bare).run_python(PROGRAM.name, case))
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}

    def take_away() -> None:
        scheduler.evict()
        scheduler.open()

    assert run_stepping(environment, case, take_away) == expected
    assert scheduler.most_resident > 50 * MIB
    assert scheduler.most_out > MIB or case in ("wrong", "questions"), "what was written is in host memory"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", cases())
def test_nothing_taken_away(bare: dict[str, str], libraries: Libraries, scheduler: SwapScheduler, case: str) -> None:
    """The same with everything on the device all the time."""
    expected = lines_of(Children(bare).run_python(PROGRAM.name, case))
    environment = bare | {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}
    assert run_stepping(environment, case, lambda: None) == expected
    assert scheduler.memory.footprint_bytes < 2 * MIB + 1, "what was released is given back"


def test_program_is_there() -> None:
    """The cases are found."""
    assert {"grows", "segments", "twice", "wrong", "questions"} <= set(cases()), Path(PROGRAM)

"""What the table says of programs that are right, wrong, crash or hang, on simulated GPUs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import SOURCE_ROOT, Libraries
from tests.gpu.results import COLUMNS, Found
from tests.gpu.rows import ROWS, Row

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
FAULTY = str(HERE / "faulty.py")
Try = Callable[..., Found]


def texts(found: Found) -> dict[str, str]:
    """Of the cells."""
    assert found.cells.keys() == COLUMNS.keys()
    return {column: cell.text for column, cell in found.cells.items()}


def test_right_program(tried: Try) -> None:
    """Alone, in turns and through swaps the driver's calls give what they give without nvshare; there is a rate."""
    found = tried(ROWS["driver"], 1.0)
    said = texts(found)
    assert said["alone"] == "equal"
    assert said["turns"].startswith("equal, ")
    assert said["swapped"].startswith("equal, ")
    assert found.cells["turns"].good
    assert not said["swapped"].startswith("equal, 0 swaps")
    assert len(found.cells["rate"].figures["ratios"]) == 6
    assert not found.absent
    assert "Simulated GPU" in found.machine


def test_ranks(tried: Try) -> None:
    """A program of two processes on two GPUs is compared as one, and pushed out of both."""
    said = texts(tried(replace(ROWS["driver"], ranks=2)))
    assert said["alone"] == "equal"
    assert said["turns"].startswith("equal, ")
    assert said["swapped"].startswith("equal, ")
    assert not said["swapped"].startswith("equal, 0 swaps")


def test_program_in_c(tried: Try, tool: Callable[[str], str], libraries: Libraries, tmp_path: Path) -> None:
    """A compiled program takes the same orders as those in Python."""
    folders = [SOURCE_ROOT / "nvshare" / "cuda", HERE.parent / "programs", HERE / "programs"]
    target = tmp_path / "plain"
    includes = [f"-I{folder}" for folder in folders]
    command = [tool("gcc"), "-O2", "-std=gnu11", *includes, str(HERE / "plain.c"), str(libraries.cuda)]
    subprocess.run([*command, "-o", str(target)], check=True)
    said = texts(tried(Row("C", str(target), "plain"), 0.2))
    assert said["alone"] == "equal"
    assert said["turns"].startswith("equal, ")
    assert said["swapped"].startswith("equal, ")


def test_wrong_results_are_told(tried: Try) -> None:
    """A program whose results are others under nvshare differs in each column, and its row is not good."""
    found = tried(Row("wrong", FAULTY, "wrong"), 0.5)
    said = texts(found)
    assert said["alone"] == "DIFFERS"
    assert said["turns"].startswith("DIFFERS, ")
    assert said["swapped"].startswith("DIFFERS, ")
    assert not found.good


def test_program_that_crashes(tried: Try) -> None:
    """Each cell says how its program ended; the ones that compare speed and results say so, too."""
    found = tried(Row("crash", FAULTY, "crash"), 0.5)
    said = texts(found)
    for column in ("alone", "rate"):
        assert said[column].startswith("failed: the program alone0 ended")
    for column in ("turns", "swapped"):
        assert re.match(f"failed: the program {column}[01] ended", said[column])
    assert not found.good


def test_program_that_hangs(tried: Try) -> None:
    """A row ends within its time, says who gave no answer and what was not tried, and leaves no process behind."""
    mark = f"row-{os.getpid()}"
    found = tried(Row("hang", FAULTY, "hang", environment={"ROW_MARK": mark}), 0.5, row_seconds=25.0)
    said = texts(found)
    assert said["alone"].startswith("failed: the program alone0 gave no answer within ")
    assert said["swapped"] == "failed: not tried: the row has had its 25 s"
    assert not found.good
    assert not marked(mark)


def marked(mark: str) -> list[int]:
    """The processes with this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_program_that_works_nowhere(tried: Try) -> None:
    """What fails without nvshare, too, says why, and is not nvshare's fault."""
    found = tried(Row("broken", FAULTY, "broken"), 0.5)
    assert found.absent == "fails without nvshare: the program bare0 ended (exit code 1): the device is lost"
    assert not found.cells


def test_program_past_the_gpu(tried: Try) -> None:
    """Equal results of programs that share no GPU prove nothing: the cells say so."""
    found = tried(Row("idle", FAULTY, "idle"), 0.01)
    said = texts(found)
    assert said["alone"].startswith("failed: uses no GPU, or finds the driver past the library")
    assert said["turns"].startswith("failed: uses no GPU")
    assert not found.good


def test_rows_that_can_not_be_tried(tried: Try) -> None:
    """A package that is missing, and GPUs that are, are named; nothing is started."""
    found = tried(Row("nothing", "driver.py", "driver", ("no_such_module", "no-such-package", "sys")))
    assert found.absent == "not installed: no_such_module, no-such-package"
    assert not found.cells

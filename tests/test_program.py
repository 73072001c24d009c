"""What programs do around their work: a part of it in a process of its own, whose modules they don't load."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from nvshare.program import run_program
from tests.conftest import SOURCE_ROOT

_LEFT_OUT = {"typer", "rich", "yaml", "pydantic"}

PROGRAM = """
import os, signal, sys
from nvshare.program import run_program, written_by_child
def work(answer):
    import sqlite3
    {work}
def run():
    print(written_by_child(work), "sqlite3" in sys.modules)
run_program("test", os.environ, run)
"""

ECHO = """
import os, signal, sys
from nvshare.program import end_with_container
def end(*_):
    # The signal may come in the midst of a print.
    os.write(1, b"ends\\n")
    sys.exit()
signal.signal(signal.SIGTERM, end)
end_with_container()
print("runs", flush=True)
for line in sys.stdin:
    print(line, end="", flush=True)
"""


def outcome(work: str) -> tuple[int, str, str]:
    """Exit status, output and complaints of a program whose child does this work."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(work=work)],
        env={"PYTHONPATH": str(SOURCE_ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("work", ["answer.write(b'yes')", "answer.write(b'yes'); sys.exit(3)"])
def test_an_answer_of_a_child(work: str) -> None:
    """The program has the answer, whatever the child's end was, and none of the modules that it took."""
    assert outcome(work) == (0, "b'yes' False\n", "")


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("print('help'); sys.exit()", (0, "help\n", "")),
        ("sys.exit('test: wrong')", (1, "", "test: wrong\n")),
        ("os.kill(os.getpid(), signal.SIGKILL)", (128 + 9, "", "")),
    ],
)
def test_an_end_without_an_answer(work: str, expected: tuple[int, str, str]) -> None:
    """The program ends as the child did, and says nothing more."""
    assert outcome(work) == expected


def test_what_is_written_waits_for_room() -> None:
    """An answer may be longer than a pipe holds."""
    assert outcome("answer.write(b'x' * 1_000_000)")[1].count("x") == 1_000_000


def heard_after_its_parents_death(parent: Sequence[str]) -> str:
    """What a program says that is asked to say "lives" once the process that started it was killed."""
    command, pipe = [*parent, sys.executable, "-c", ECHO], subprocess.PIPE
    environment = {"PYTHONPATH": str(SOURCE_ROOT)}
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        assert starter.stdout.readline() == "runs\n"
        starter.kill()
        starter.wait()
        said, _ = starter.communicate("lives\n", timeout=30)
    return said


def test_a_container_whose_runtime_is_killed(tool: Callable[[str], str]) -> None:
    """Its first process ends in order."""
    assert heard_after_its_parents_death([tool("unshare"), "--pid", "--fork"]) in ("ends\n", "lives\nends\n")


def test_a_shell_that_is_killed() -> None:
    """What it started lives on."""
    assert heard_after_its_parents_death(["sh", "-c", '"$@"; exit', "sh"]) == "lives\n"


@pytest.mark.parametrize(
    ("said", "kept"),
    [("80", True), ("0080", True), *((text, False) for text in ("", "0", "00", "-3", "wide", "\u00b2", "10000"))],
)
@pytest.mark.parametrize("variable", ["COLUMNS", "LINES"])
def test_size_of_a_terminal(variable: str, said: str, kept: bool) -> None:
    """What is none is as if it were not said: whoever draws asks the terminal."""
    environment = {variable: said, "HOME": "/root"}
    run_program("test", environment, lambda: None)
    assert environment == {"HOME": "/root"} | ({variable: said} if kept else {})


@pytest.mark.parametrize(
    ("program", "left_out"),
    [("scheduler", _LEFT_OUT), ("deviceplugin", _LEFT_OUT | {"httpcore2"}), ("nodeagent", _LEFT_OUT)],
)
def test_what_a_program_that_serves_leaves_out(program: str, left_out: set[str]) -> None:
    """Modules for the command line, for colors, for Kubernetes's API server: they would be a third of its memory."""
    code = f"import sys, nvshare.{program}.serving as serving; print(*{left_out} & sys.modules.keys())"
    environment = {"PYTHONPATH": str(SOURCE_ROOT)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ("\n", "")

"""The program that drives the core at random."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.random_drivers import __main__ as program
from tests.random_drivers import drivers

ROOT = Path(__file__).parents[2]
BROKEN = """
import sys, types
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.random_drivers import __main__ as program, drivers

class BrokenMachine(RuleBasedStateMachine):
    @rule(number=st.integers(0, 9))
    def count(self, number):
        assert number != 7, "seven came"

sys.modules["broken"] = types.SimpleNamespace(BrokenMachine=BrokenMachine)
drivers.MODULES = {"BrokenMachine": "broken"}
sys.exit(program.main())
"""

ONE_DRIVER = "drivers.MODULES = {'LimitMachine': drivers.MODULES['LimitMachine']}"


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in an empty folder."""
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": ""}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


def test_every_machine_is_driven() -> None:
    """No state machine of the core is forgotten."""
    sources = [path.read_text() for path in (ROOT / "tests" / "scheduler" / "core").rglob("test_*.py")]
    machines = {name for text in sources for name in re.findall(r"^Test(\w+) = \1\.TestCase", text, re.MULTILINE)}
    assert machines == {name for name in drivers.MODULES if not name.startswith("test_")}


def test_a_round_leaves_nothing(tmp_path: Path) -> None:
    """A round of a machine that holds ends well, and has written no file."""
    result = run(tmp_path, "-B", "-m", "tests.random_drivers", "--driver", "LimitMachine", "--seed", "7")
    assert result.returncode == 0, result.stderr
    assert not list(tmp_path.iterdir())


def test_a_failure_shows_its_example(tmp_path: Path) -> None:
    """A machine that fails ends the program with the steps that led there, the same for the same seed."""
    results = [run(tmp_path, "-c", BROKEN, "--driver", "BrokenMachine", "--seed", "3") for _ in range(2)]
    said = results[0].stdout + results[0].stderr
    assert results[0].returncode == 1
    assert "seven came" in said
    assert "state.count(number=7)" in said
    assert said == results[1].stdout + results[1].stderr
    assert not list(tmp_path.iterdir())


def test_the_first_failure_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Rounds of all drivers go on for the time; one that fails ends them, with what repeats it."""
    monkeypatch.setattr(drivers, "MODULES", {"NoMachine": "there is none"})
    assert program.play_all(program.new_rounds(60.0), 2) == 1
    said = capsys.readouterr().out.splitlines()
    failed = [line.removeprefix("failed: ") for line in said if line.startswith("failed: ")]
    assert failed
    assert all(re.fullmatch(r"python -m tests\.random_drivers --driver NoMachine --seed \d+", line) for line in failed)
    assert set(failed) <= set(said)


def test_the_same_text_brings_the_same_rounds() -> None:
    """As many of each driver, of which none is played twice; another text brings other ones."""
    rounds = list(program.rounds_of("a tree", 3))
    assert rounds == list(program.rounds_of("a tree", 3))
    assert Counter(name for name, _ in rounds) == dict.fromkeys(drivers.MODULES, 3)
    assert len(set(rounds)) == len(rounds)
    assert not set(rounds) & set(program.rounds_of("another tree", 3))


def test_all_rounds_are_played(tmp_path: Path) -> None:
    """Each prints what repeats it."""
    alone = f"from tests.random_drivers import __main__ as program, drivers; {ONE_DRIVER}; sys.exit(program.main())"
    result = run(tmp_path, "-c", f"import sys; {alone}", "--of", "a tree", "--rounds", "2", "--processes", "2")
    assert result.returncode == 0, result.stdout
    *said, last = result.stdout.splitlines()
    assert {line.split()[-1] for line in said} == {
        str(seed) for name, seed in program.rounds_of("a tree", 2) if name == "LimitMachine"
    }
    assert last == "2 rounds held"

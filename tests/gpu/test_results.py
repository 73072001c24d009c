"""Cells, tables, and results of several runs made one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu import doctor, results
from tests.gpu.results import COLUMNS, Cell, Found


def test_equal_means_all_and_some() -> None:
    """Results are equal when every digest is the reference's; of none nothing is known."""
    assert results.verdict(["a", "a"], "a", "9 turns") == Cell(
        "equal, 9 turns", True, {"digests": ["a", "a"], "reference": "a"}
    )
    assert results.verdict(["a", "b"], "a").text == "DIFFERS"
    assert not results.verdict(["a", "b"], "a").good
    assert not results.verdict([], "a").good
    assert not results.verdict([""], "").good


def test_too_few_swaps_are_not_good() -> None:
    """What was to happen meanwhile did not: equal results are not enough."""
    cell = results.verdict(["a"], "a", "3 swaps", enough=False)
    assert cell.text == "equal, 3 swaps"
    assert cell.good is False


def test_reasons_are_one_line() -> None:
    """Of a traceback the first line and the last are kept, cut where they are long."""
    assert results.reason("it ended:\n  File x\n\nMemoryError: no\n") == "it ended: MemoryError: no"
    assert results.reason("") == "?"
    assert len(results.reason("x" * 1000)) < 200


def found(text: str, absent: str = "") -> Found:
    """A row."""
    cells = {} if absent else dict.fromkeys(COLUMNS, Cell(text))
    return Found(f"title of {text}", "a GPU", {"torch": "2"}, absent, cells, 1.5)


def test_table() -> None:
    """Rows in their order, those that were not tried last, and nothing that breaks a row."""
    table = results.table({"b": found("", "not installed: x"), "c": found("a|b"), "a": found("one")}, ["b", "a", "c"])
    assert table.splitlines()[2:] == [
        "| title of one | one | one | one | one | one |",
        "| title of a/b | a/b | a/b | a/b | a/b | a/b |",
        "| title of  | not installed: x |  |  |  |  |",
    ]
    assert len({line.count("|") for line in table.splitlines()}) == 1


def test_written_and_read(tmp_path: Path) -> None:
    """What is written is read again as it was."""
    whole = {"a": found("one"), "b": found("", "needs two GPUs")}
    results.write(whole, tmp_path / "new" / "results.json")
    assert results.read(tmp_path / "new" / "results.json") == whole


@pytest.mark.parametrize("text", ["", "[]", '{"a": {}}', '{"a": {"cells": {}, "other": 1}}'])
def test_other_files_are_told(text: str, tmp_path: Path) -> None:
    """A file that has no results is named."""
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match=r"other\.json has no results"):
        results.read(tmp_path / "other.json")


def test_merged() -> None:
    """The last that was tried counts: a machine without a package, or with one GPU, takes nothing away."""
    one = {"a": found("old"), "b": found("", "needs two GPUs")}
    two = {"a": found("new"), "b": found("tried"), "c": found("", "not installed: x")}
    three = {"a": found("", "not installed: x"), "c": found("", "not installed: y")}
    whole = results.merged([one, two, three])
    assert whole == {"a": two["a"], "b": two["b"], "c": three["c"]}


def report(shared: str, code: int = 0, fixed: int = 0) -> dict[str, object]:
    """What doctor says of a program of one process on one GPU."""
    device = {"swappable_bytes": 3 << 20, "not_swappable_bytes": fixed, "in_gang": fixed > 0}
    findings = [{"level": "problem", "what": "it is static"}, {"level": "note", "what": "it is slow"}]
    return {
        "shared_safely": shared,
        "exit_code": code,
        "processes": [{"devices": [device]}],
        "findings": findings if shared == "no" else findings[1:],
    }


def test_what_doctor_says() -> None:
    """The verdict comes first, then what swaps and what does not, then the problems; only yes is good."""
    assert doctor.cell(report("yes")).text == "yes; 3 MiB swappable"
    assert doctor.cell(report("yes")).good
    assert doctor.cell(report("yes", fixed=2 << 20)).text == "yes; 3 MiB swappable; 2 MiB not; in a gang"
    assert doctor.cell(report("no", 3)).text == "no; its exit code was 3; 3 MiB swappable; it is static"
    assert doctor.cell(report("no")).good is False
    assert doctor.cell(report("uncertain")).good is None
    assert doctor.cell({**report("unused"), "processes": []}).text == "unused"

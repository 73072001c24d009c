"""``nvshare-ctl demo --many`` from beginning to end, and what it reports."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from nvshare.ctl.asking.demo_clients import deeds, watching_clients
from nvshare.demo.clients import Did
from nvshare.demo.errors import DemoError
from nvshare.demo.many import files, runner, terminal
from nvshare.demo.many.report import Program, Report, percentile, summary
from nvshare.demo.plan import Answered
from nvshare.demo.report import DeviceInfo
from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, ctl, environment
from tests.ctl.terminal import in_terminal
from tests.demo.marked import marked
from tests.polling import poll_until

GIB = 1024**3
THREE_CONTEXTS_MIB = 2400
ASK = runner.Scheduler(watching_clients, deeds)


@pytest.mark.usefixtures("libraries")
def test_more_programs_than_contexts(run_dir: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six where three have room beside what stays free: all answers are right, each has slept; the files show it."""
    runner.run(6, tmp_path, environment(run_dir), ASK, THREE_CONTEXTS_MIB)
    said = " ".join(capsys.readouterr().out.split())
    assert "which 4 of them fill" in said
    assert "Seen: 6 of 6 programs lived side by side" in said
    assert "12 of 12 answers are right. 6 programs slept, 6 at a time" in said
    assert "A request to a program that slept took " in said
    assert (tmp_path / "sleep.html").read_text().count('class="name"') == 6
    slices = json.loads((tmp_path / "sleep.trace.json").read_text())["traceEvents"]
    assert sum(each["name"].startswith("request ") for each in slices) == 12


@pytest.mark.usefixtures("libraries")
def test_interrupted_in_a_terminal(run_dir: RunDir, tmp_path: Path) -> None:
    """The terminal shows who sleeps; Ctrl-C ends every process, those that sleep as well, and nothing stays on disk."""
    mark = f"mark-{os.getpid()}-{run_dir.root.name}"
    scratch = run_dir.root / "tmp"
    scratch.mkdir()
    variables = environment(run_dir, TERM="xterm-256color", DEMO_MARK=mark, TMPDIR=str(scratch))
    with in_terminal([*COMMAND, "demo", "--many", "3", "--output", str(tmp_path / "out")], variables) as shown:
        process = shown.process
        poll_until(lambda: " asleep" in shown.output() or process.poll(), "somebody sleeps", timeout=40)
        assert " asleep" in shown.output()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        poll_until(lambda: not marked(mark), "all processes of the demo are gone")
        assert list(scratch.iterdir()) == []
        assert list(tmp_path.iterdir()) == []
        assert "Traceback" not in shown.output()


@pytest.mark.usefixtures("libraries")
def test_programs_that_break(run_dir: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask for more than there is: each says what it was refused, and nobody is waited for."""
    monkeypatch.setattr(runner, "_DATA_BYTES", 32 * GIB)
    broken = "broke: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(DemoError, match=f"(?s)program 1 {broken}.*program 2 {broken}"):
        runner.run(2, tmp_path, environment(run_dir), ASK)
    assert (tmp_path / "sleep.html").exists()


@pytest.mark.parametrize("words", [["6"], ["--many", "--real"], ["--many", "0"], ["--many", "401"]], ids=" ".join)
def test_wrong_words(run_dir: RunDir, words: Sequence[str]) -> None:
    """They are refused before anything runs."""
    assert ctl(run_dir, "demo", *words).returncode == 2


@pytest.mark.parametrize("number", ["0", "401", "many", "9" * 5000])
def test_wrong_numbers(run_dir: RunDir, number: str) -> None:
    """The message has the value, and says what is allowed."""
    done = ctl(run_dir, "demo", "--many", number, COLUMNS="6000")
    assert done.returncode == 2
    assert f"'{number}' is not allowed; a whole number from 1 to 400 is" in done.stderr


def _program(**more: object) -> Program:
    """It slept, was asked and woke, and slept again."""
    deeds = (
        Did("asleep", 101, 103),
        Did("waking", 103, 103.25),
        Did("holding", 103.25, 103.5),
        Did("asleep", 105, 110),
    )
    answers = (Answered(100, 100.125, 0), Answered(103, 103.5, 0))
    return replace(Program(11, 2, answers, True, 2, deeds), **more)  # type: ignore[arg-type]


def _report(*programs: Program) -> Report:
    device = DeviceInfo("GPU-1", "Simulated <GPU>", 16 * GIB)
    return Report(device, GIB, 1.0, programs, 100.0, 110.0, 1, 2 * GIB)


def test_summary() -> None:
    """It has the figures; only what a program was asked for while it slept is counted among the waits."""
    report = _report(_program())
    assert report.good
    said = summary(report)
    assert "2 of 2 answers are right. 1 program slept, 1 at a time; 2 sleeps and 1 wake." in said
    assert "took 0.50 s (p50; p99 0.50 s; 1 of them)" in said
    assert "No request came to a program that slept." in summary(_report(_program(deeds=())))


@pytest.mark.parametrize(
    "bad",
    [
        {"answers": (Answered(100, 101, 0), Answered(102, 103, 1))},
        {"answers": (Answered(100, 101, 0),)},
        {"lived": False},
        {"sleeps": 0},
    ],
    ids=["a wrong answer", "an answer missing", "it ended", "it never slept"],
)
def test_not_good(bad: dict[str, object]) -> None:
    """Each of these in one program spoils the demo."""
    assert not _report(_program(), _program(**bad)).good


def test_percentile() -> None:
    """The smallest value that is enough for so many percent."""
    assert [percentile([3, 1, 2, 4], percent) for percent in (1, 50, 51, 75, 99, 100)] == [1, 2, 3, 3, 4, 4]
    assert percentile([], 50) == 0


@pytest.mark.parametrize("width", [80, 120])
def test_timeline(width: int) -> None:
    """A row for each state, which says how many there were; no line is wider than the terminal."""
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(terminal.timeline(_report(_program(), _program()), width))
        console.print(terminal.live(["asleep", "holding"] * 100, "counted", width))
    lines = capture.get().splitlines()
    assert all(len(line) <= width for line in lines)
    [asleep] = [line for line in lines if line.startswith("asleep")]
    assert asleep.split()[1] == "2"
    assert "█" in asleep[len(asleep) // 2 :]
    assert "· asleep" in capture.get()


def test_page_and_trace() -> None:
    """A bar for each thing that a program did, with its length; wrong answers are marked in the trace."""
    report = _report(_program(answers=(Answered(103, 103.5, 7),)))
    page = files.html_page(report)
    assert page.count('<rect class="sleep"') == 2
    assert "pid 11: waking for 0.250 s, 3.000 s to 3.250 s" in page
    slices = {each["name"]: each for each in json.loads(files.chrome_trace(report))["traceEvents"] if each["ph"] == "X"}
    assert slices["request 1 WRONG"]["dur"] == 0.5e6
    assert slices["waking"]["ts"] == 3e6

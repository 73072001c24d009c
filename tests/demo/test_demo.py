"""``nvshare-ctl demo`` from beginning to end, on simulated devices."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
from collections import defaultdict
from pathlib import Path

import pytest

from nvshare.demo import processes, simulation
from nvshare.demo.job import check
from nvshare.demo.plan import Broken, Plan
from nvshare.paths import RunDir
from nvshare.simgpu.turns import Kind, Span, turns
from tests.ctl.program import COMMAND, ctl, environment
from tests.ctl.terminal import in_terminal
from tests.demo.marked import marked
from tests.polling import poll_until

pytestmark = pytest.mark.usefixtures("libraries")


def test_demo(run_dir: RunDir, tmp_path: Path) -> None:
    """Four jobs, two GPUs: all results right, turns on both, memory that moves, no overlap; the files show it too."""
    done = ctl(run_dir, "demo", "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "(overlaps: 0); 4 of 4 results are right. Swapped: " in said
    assert "This was simulated" in said
    assert all(f"job {name} holding" in said for name in "ABCD")
    assert re.search(r"Swapped: [\d.]+ [MG]iB out and [\d.]+ [MG]iB in, \d+% of it while another job computed; ", said)
    assert re.search(r"paged by the driver, a step took [\d.]+ times as long, by the simulator's model", said)
    page, trace = (tmp_path / "out" / name for name in ("turns.html", "turns.trace.json"))
    assert str(page) in done.stdout
    assert str(trace) in done.stdout
    assert page.read_text().startswith("<!doctype html>")
    _check_trace(json.loads(trace.read_text())["traceEvents"])


def _check_trace(events: list[dict[str, object]]) -> None:
    """Per device: two jobs, more turns than jobs, the kernels one after the other, and memory out and in."""
    work: dict[object, list[Span]] = defaultdict(list)
    moved: dict[object, set[str]] = defaultdict(set)
    for event in events:
        name = str(event["name"])
        if name.startswith("swap-"):
            moved[event["pid"]].add(name.split()[0])
        if event["ph"] == "X" and name.startswith("nvs_"):
            begin_ns, length_ns = (round(float(str(event[key])) * 1000) for key in ("ts", "dur"))
            pid = event["args"]["pid"]  # type: ignore[index]
            work[event["pid"]].append(Span(pid, Kind.KERNEL, name, begin_ns, begin_ns + length_ns, pid))
    assert len(work) == 2
    assert moved == {device: {"swap-in", "swap-out"} for device in work}
    for spans in work.values():
        assert len({span.pid for span in spans}) == 2
        # How many turns there are depends on how fast this machine moves memory.
        assert len(turns(spans)) >= 3
        spans.sort(key=lambda span: span.start_ns)
        assert all(after.start_ns >= before.end_ns for before, after in itertools.pairwise(spans))


def test_interrupted_in_a_terminal(run_dir: RunDir, tmp_path: Path) -> None:
    """The terminal shows holders; Ctrl-C ends the demo and every process of it, and nothing stays on disk."""
    mark = f"mark-{os.getpid()}-{run_dir.root.name}"
    scratch = run_dir.root / "tmp"
    scratch.mkdir()
    variables = environment(run_dir, TERM="xterm-256color", DEMO_MARK=mark, TMPDIR=str(scratch))
    with in_terminal([*COMMAND, "demo", "--output", str(tmp_path / "out")], variables) as terminal:
        process = terminal.process
        poll_until(lambda: "holding" in terminal.output() or process.poll(), "a holder is shown", timeout=40)
        assert "holding" in terminal.output()
        assert len(marked(mark)) == 6
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        poll_until(lambda: not marked(mark), "all processes of the demo are gone")
        assert list(scratch.iterdir()) == []
        assert list(tmp_path.iterdir()) == []
        assert "Traceback" not in terminal.output()


PLAN = Plan("A", 0, 1 << 20, 2, 6, 1000, 1, stamped=False)


def test_wrong_results_are_seen() -> None:
    """One wrong element, or one wrong sum, makes a job's result wrong."""
    values = [1.0 + 2 + 1 + 3, 1.0 + 3 + 2 + 1]
    elements = [value for value in values for _ in range(4096)]
    sums = [value * 4096 for value in values]
    assert check(PLAN, sums, elements).right
    assert not check(PLAN, [sums[0], sums[1] + 1], elements).right
    elements[5000] += 1
    assert not check(PLAN, sums, elements).right


def test_broken_job(run_dir: RunDir, tmp_path: Path) -> None:
    """A job that the driver refuses something says which call and which error."""
    variables = simulation.environment(environment(run_dir), tmp_path / "devices", "1x16GiB")
    too_big = Plan("A", 0, 20 << 30, 1, 8, 1000, 1, stamped=False)
    with processes.jobs([too_big], variables, tmp_path / "log") as (_pids, events):
        first, second = events.get(timeout=30), events.get(timeout=30)
    assert first.event == Broken("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)")
    assert second.event == processes.Ended(1)


def test_real_without_a_gpu(run_dir: RunDir, tmp_path: Path) -> None:
    """--real where no driver is says so and names the way without one."""
    done = ctl(run_dir, "demo", "--real", "--output", str(tmp_path))
    assert done.returncode == 1
    assert "no device can be used" in done.stderr
    assert "without --real" in done.stderr


@pytest.mark.parametrize("place", ["", "out", "a/new/folder"])
def test_a_folder_without_files(run_dir: RunDir, tmp_path: Path, place: str) -> None:
    """It does not stay, unless it was there before."""
    begun = tmp_path / "begun"
    begun.mkdir()
    assert ctl(run_dir, "demo", "--real", "--output", str(begun / place)).returncode == 1
    assert list(begun.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "/proc/self"])
def test_output_in_the_way(run_dir: RunDir, tmp_path: Path, place: str) -> None:
    """A place that can't be written is said before the jobs run, also a folder that takes no files."""
    (tmp_path / "file").write_text("")
    done = ctl(run_dir, "demo", "--output", str(tmp_path / place))
    assert (done.returncode, done.stdout) == (1, "")
    assert "choose another --output" in done.stderr

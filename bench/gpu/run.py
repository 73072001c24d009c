"""What nvshare costs and gains on a real GPU, with two unmodified PyTorch programs.

    PYTHONPATH=src:. python bench/gpu/run.py --output FILE

Every figure is a ratio within one run. The memory backend is ``native``, or what NVSHARE_MEMORY says. Run it from the
root of the project, after ``make libs``. Needs PyTorch and one NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nvshare import paths, scheduler_process, shim
from nvshare.scheduler_process import SchedulerStartError
from nvshare.simgpu import turns
from nvshare.simgpu.turns import Kind, Span
from tests.polling import poll_until

HERE = Path(__file__).parent
DEADLINE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one program printed."""

    rates: list[float]
    begun: float
    ended: float
    digest: str
    spans: list[Span]
    """By the GPU's clock."""

    @property
    def rate(self) -> float:
        """Iterations a second, median over the rounds."""
        return statistics.median(self.rates)


@contextmanager
def scheduler(
    policy: str, quantum_seconds: float, environment: Mapping[str, str] = os.environ
) -> Iterator[dict[str, str]]:
    """A private scheduler; gives the environment of programs that share the GPU through it."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = paths.RunDir(Path(folder))
        command = scheduler_process.command(run_dir, "--policy", policy, "--quantum", str(quantum_seconds))
        with run_dir.log_file.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(command, env=dict(environment), stderr=log, stdout=log)
        try:
            scheduler_process.wait_until_accepting(run_dir, lambda: process.poll() is None, run_dir.log_file)
            yield {paths.MEMORY: "native", **environment, **shim.preload_environment(run_dir, environment)}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def start(workload: str, environment: dict[str, str], *options: str) -> subprocess.Popen[str]:
    """Starts one program."""
    command = [sys.executable, str(HERE / "workload.py"), workload, *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> Result:
    """Waits for a program and reads its line. Raises RuntimeError with its stderr when it failed."""
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    if process.returncode != 0:
        raise RuntimeError(f"the program ended with {process.returncode}:\n{err[-4000:]}")
    line = json.loads(out.splitlines()[-1])
    pid = process.pid
    spans = [Span(pid, Kind.KERNEL, "spin", start_ns, end_ns, pid) for start_ns, end_ns in line["spans"]]
    return Result(line["rates"], line["begun"], line["ended"], line["digest"], spans)


def alone(workload: str, environment: dict[str, str], *options: str) -> Result:
    """One program by itself."""
    return finish(start(workload, environment, *options))


def together(workload: str, environment: dict[str, str], count: int, *options: str) -> list[Result]:
    """``count`` programs that begin to measure at the same moment."""
    with tempfile.TemporaryDirectory() as folder:
        barrier = Path(folder)
        processes = [start(workload, environment, *options, "--barrier", folder) for _ in range(count)]

        def all_warm() -> bool:
            failed = next((each for each in processes if each.poll() is not None), None)
            if failed is not None:
                raise RuntimeError("a program ended before it was warm:\n" + failed.communicate()[1][-4000:])
            return len(list(barrier.iterdir())) == count

        try:
            poll_until(all_warm, "all programs are warm", timeout=DEADLINE_SECONDS)
        except (RuntimeError, AssertionError):
            for process in processes:
                process.kill()
            raise
        (barrier / "go").touch()
        return [finish(process) for process in processes]


def makespan(results: list[Result]) -> float:
    """Seconds from the first beginning to the last end."""
    return max(r.ended for r in results) - min(r.begun for r in results)


def overlapping(results: list[Result]) -> int:
    """How often a span of one program began on the GPU beside one of another's."""
    return len(turns.overlaps(span for result in results for span in result.spans))


def changes(results: list[Result]) -> int:
    """How often the GPU went from one program to another."""
    return len(turns.turns(span for result in results for span in result.spans)) - 1


def overhead(workload: str, rows: list[str], iterations: int, repeats: int) -> None:
    """One program under the preload against the same without it, alternating."""
    options = ["--iterations", str(iterations), "--rounds", "5", "--warm-up", "200"]
    bare, shared, digests = [], [], set()
    with scheduler("exclusive", 30) as environment:
        sides = [(bare, dict(os.environ)), (shared, environment)]
        for repeat in range(repeats):
            for rates, where in sides if repeat % 2 else reversed(sides):
                result = alone(workload, where, *options)
                rates.extend(result.rates)
                digests.add(result.digest)
    ratio = statistics.median(shared) / statistics.median(bare)
    rows.append(
        f"| {workload}, one program, preload against none | "
        f"{statistics.median(shared):.1f} / {statistics.median(bare):.1f} it/s | {ratio:.4f} | "
        f"results {'equal' if len(digests) == 1 else 'DIFFER'} |"
    )


def exclusive(workload: str, rows: list[str], iterations: int, span_every: int, quantum_seconds: float) -> None:
    """Two programs that take turns, against one alone."""
    options = ["--iterations", str(iterations), "--span-every", str(span_every)]
    single = alone(workload, dict(os.environ), *options)
    free = together(workload, dict(os.environ), 2, *options)
    with scheduler("exclusive", quantum_seconds) as environment:
        shared = together(workload, environment, 2, *options)
    ratio = 2 * (single.ended - single.begun) / makespan(shared)
    equal = {each.digest for each in (single, *shared)} == {single.digest}
    rows.append(
        f"| {workload}, two in turns (quantum {quantum_seconds:g} s), sum of rates against one alone | "
        f"{makespan(shared):.2f} s / 2 x {single.ended - single.begun:.2f} s | {ratio:.4f} | "
        f"{overlapping(shared)} of {sum(len(each.spans) for each in shared)} spans overlap "
        f"(without nvshare {overlapping(free)}), "
        f"{changes(shared)} changes of hands (without nvshare {changes(free)}), "
        f"results {'equal' if equal else 'DIFFER'} |"
    )


def automatic(workload: str, rows: list[str], iterations: int, repeats: int) -> None:
    """Two programs that fit together under ``auto``, against the same two without nvshare."""
    options = ["--iterations", str(iterations)]
    bare, shared = [], []
    with scheduler("auto", 2) as environment:
        sides = [(bare, dict(os.environ)), (shared, environment)]
        for repeat in range(repeats):
            for sums, where in sides if repeat % 2 else reversed(sides):
                sums.append(sum(r.rate for r in together(workload, where, 2, *options)))
    ratio = statistics.median(shared) / statistics.median(bare)
    rows.append(
        f"| {workload}, two together under auto, sum of rates against the same two without nvshare | "
        f"{statistics.median(shared):.1f} / {statistics.median(bare):.1f} it/s | {ratio:.4f} | |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", help="run the experiments whose name contains this")
    options = parser.parse_args()
    rows = ["| what | measured | ratio | seen |", "|---|---|---|---|"]
    experiments = {
        "overhead-tiny": lambda: overhead("tiny_add", rows, 200_000, 5),
        "overhead-mlp": lambda: overhead("mlp", rows, 1_000, 6),
        "exclusive-matmul": lambda: exclusive("matmul", rows, 6_000, 1, 2.0),
        "exclusive-graph": lambda: exclusive("graph", rows, 40_000, 10, 1.0),
        "exclusive-mlp": lambda: exclusive("mlp", rows, 4_000, 4, 1.0),
        "auto-mlp": lambda: automatic("mlp", rows, 3_000, 8),
    }
    for name, experiment in experiments.items():
        if options.only and options.only not in name:
            continue
        try:
            experiment()
        except (RuntimeError, AssertionError, SchedulerStartError, subprocess.TimeoutExpired) as error:
            rows.append(f"| {name} failed | {str(error)[-1500:]} | | |")
        options.output.write_text("\n".join(rows) + "\n", encoding="utf-8")
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()

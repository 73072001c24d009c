"""What nvshare costs and gains on a real GPU, with two unmodified PyTorch programs.

    python bench/gpu/run.py --output FILE

Every figure is a ratio within one run. The memory backend is ``native``. Needs PyTorch, one NVIDIA GPU and nvshare on
the path (``PYTHONPATH=src`` does, after ``make libs``).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nvshare import paths, shim

HERE = Path(__file__).parent
PATIENCE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one program printed; ``spans`` are nanoseconds of the GPU's clock."""

    rates: list[float]
    begun: float
    ended: float
    digest: str
    spans: list[tuple[int, int]]

    @property
    def rate(self) -> float:
        """Iterations a second, median over the rounds."""
        return statistics.median(self.rates)


@contextmanager
def scheduler(policy: str, quantum_seconds: float) -> Iterator[dict[str, str]]:
    """A private scheduler; gives the environment of programs that share the GPU through it."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = paths.RunDir(Path(folder))
        command = [sys.executable, "-m", "nvshare.scheduler", "--run-dir", folder]
        command += ["--policy", policy, "--quantum", str(quantum_seconds)]
        with (Path(folder) / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stderr=log, stdout=log)
        deadline = time.monotonic() + 30
        while not run_dir.client_socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the scheduler did not start: " + (Path(folder) / "log").read_text(encoding="utf-8"))
            time.sleep(0.02)
        environment = os.environ | {
            paths.LD_PRELOAD: str(shim.library_path()),
            paths.RUN_DIR: folder,
            paths.MEMORY: "native",
        }
        try:
            yield environment
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def start(workload: str, environment: dict[str, str], *options: str) -> subprocess.Popen[str]:
    """Starts one program."""
    command = [sys.executable, str(HERE / "workload.py"), workload, *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> Result:
    """Waits for a program and reads its line. Raises RuntimeError with its stderr when it failed."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    if process.returncode != 0:
        raise RuntimeError(f"the program ended with {process.returncode}:\n{err[-4000:]}")
    line = json.loads(out.splitlines()[-1])
    return Result(line["rates"], line["begun"], line["ended"], line["digest"], [(a, b) for a, b in line["spans"]])


def alone(workload: str, environment: dict[str, str], *options: str) -> Result:
    """One program by itself."""
    return finish(start(workload, environment, *options))


def together(workload: str, environment: dict[str, str], count: int, *options: str) -> list[Result]:
    """``count`` programs that begin to measure at the same moment."""
    with tempfile.TemporaryDirectory() as folder:
        barrier = Path(folder)
        processes = [start(workload, environment, *options, "--barrier", folder) for _ in range(count)]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(list(barrier.iterdir())) < count:
            failed = [p for p in processes if p.poll() is not None]
            if failed or time.monotonic() > deadline:
                for process in processes:
                    process.kill()
                raise RuntimeError("a program did not get warm:\n" + processes[0].communicate()[1][-4000:])
            time.sleep(0.01)
        (barrier / "go").touch()
        return [finish(process) for process in processes]


def makespan(results: list[Result]) -> float:
    """Seconds from the first beginning to the last end."""
    return max(r.ended for r in results) - min(r.begun for r in results)


def overlapping(one: Result, other: Result) -> int:
    """How many of one program's spans on the GPU overlap one of the other's."""
    marks = sorted([(s, e, 0) for s, e in one.spans] + [(s, e, 1) for s, e in other.spans])
    latest_end = [0, 0]
    count = 0
    for begin, end, owner in marks:
        count += begin < latest_end[1 - owner]
        latest_end[owner] = max(latest_end[owner], end)
    return count


def turns(one: Result, other: Result) -> int:
    """How often the GPU changed hands."""
    owners = [owner for _, owner in sorted([(s, 0) for s, _ in one.spans] + [(s, 1) for s, _ in other.spans])]
    return sum(a != b for a, b in itertools.pairwise(owners))


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
        one, other = together(workload, environment, 2, *options)
    ratio = 2 * (single.ended - single.begun) / makespan([one, other])
    equal = {single.digest, one.digest, other.digest} == {single.digest}
    rows.append(
        f"| {workload}, two in turns (quantum {quantum_seconds:g} s), sum of rates against one alone | "
        f"{makespan([one, other]):.2f} s / 2 x {single.ended - single.begun:.2f} s | {ratio:.4f} | "
        f"{overlapping(one, other)} of {len(one.spans) + len(other.spans)} spans overlap "
        f"(without nvshare {overlapping(*free)}), "
        f"{turns(one, other)} changes of hands (without nvshare {turns(*free)}), "
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
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            rows.append(f"| {name} failed | {str(error)[-1500:]} | | |")
        options.output.write_text("\n".join(rows) + "\n", encoding="utf-8")
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()

"""What swapping reaches on a real GPU: the rows of RESULTS.md, "Swapping".

    PYTHONPATH=src:. python bench/gpu/swap.py --output FOLDER [--only NAME ...] [--simulate]

Each experiment makes the card small by a process that holds most of it, by plain allocations and without the library,
has a scheduler of its own, and ends within its time whatever happens: all that it started is killed. The table is
printed row by row; FOLDER gets it as ``swap.md``, the figures behind it as ``swap.json``, and what programs and
schedulers said as ``swap.log``. Needs PyTorch and one NVIDIA GPU (``matrix`` two), or neither with ``--simulate``,
where only the order of things is meant, not the figures. Run it from the root of the project, after ``make libs``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import allocations
import frameworks
import jobs
import transfers
from place import HOST_GIB, Place
from rows import Table

from nvshare import simgpu

GIB = 1 << 30
SIMULATED_UNIT = 32 << 20
"""What stands for 1 GiB on a simulated device."""
SPARE_GIB = 12
"""Of host memory, for programs."""
LOG_TAIL_BYTES = 200_000


class OutOfTimeError(Exception):
    """An experiment took longer than it may."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One of the names of ``--only``."""

    run: Callable[[Place, Table], None]
    most_seconds: int
    devices: int = 1


EXPERIMENTS = {
    "rate": Experiment(transfers.rate, 120),
    "handover": Experiment(transfers.handover, 120),
    "idle": Experiment(transfers.idle, 120),
    "cgroup": Experiment(transfers.cgroup, 90),
    "makespan": Experiment(jobs.makespan, 240),
    "many": Experiment(jobs.many, 300),
    "start": Experiment(frameworks.start, 180),
    "equal": Experiment(frameworks.equal, 300),
    "allocations": Experiment(allocations.allocations, 90),
    "launch": Experiment(frameworks.launch, 180),
    "matrix": Experiment(jobs.matrix, 240, devices=2),
}


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """The block ends with OutOfTimeError after so long."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise OutOfTimeError(f"more than {seconds} s, at {frame.f_code.co_name if frame else '?'}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def keep_logs(logs: Path, experiment: str, target: Path) -> None:
    """Appends the ends of all logs of an experiment to the one that stays."""
    with target.open("a", encoding="utf-8") as kept:
        for log in sorted(logs.rglob("*.log")):
            text = log.read_text(errors="replace")
            if text:
                kept.write(f"\n==== {experiment}: {log.relative_to(logs)}\n{text[-LOG_TAIL_BYTES:]}")


def perform(name: str, options: argparse.Namespace, table: Table) -> bool:
    """One experiment; false when it failed."""
    experiment = EXPERIMENTS[name]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nvs-") as folder, ExitStack() as stack:
        logs = Path(folder)
        environment = dict(os.environ)
        if options.simulate:
            text = f"{experiment.devices}x{options.simulated_memory}"
            environment |= simgpu.environment(logs / "gpus", text, environment)
        unit = SIMULATED_UNIT if options.simulate else GIB
        place = Place(environment, options.simulate, unit, logs, stack)
        failure = ""
        try:
            with at_most(experiment.most_seconds):
                experiment.run(place, table)
        except Exception as error:
            # Whatever it is, the others' figures are wanted; device time is short.
            failure = f"{type(error).__name__}: {error}"
            (logs / "failure.log").write_text(traceback.format_exc())
        finally:
            stack.close()
            keep_logs(logs, name, table.folder / "swap.log")
    seconds = time.monotonic() - begin
    if failure:
        print(f"{name} failed: {failure}", file=sys.stderr, flush=True)
        short = " ".join(failure.split())
        table.row(name, "FAILED", "", "", short[:200] + (" ... " if len(short) > 500 else "") + short[200:][-300:], {})
    print(f"# {name}: {seconds:.0f} s", flush=True)
    return not failure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, help="these, in this order")
    parser.add_argument("--simulate", action="store_true", help="on simulated devices, much smaller")
    parser.add_argument("--simulated-memory", default="24GiB/768MiB", help="of each simulated device")
    options = parser.parse_args()
    if not options.simulate:
        program = Path(__file__).parent / "host_memory.py"
        subprocess.run([sys.executable, str(program), str((HOST_GIB + SPARE_GIB) * GIB)], check=True, timeout=120)
    table = Table(options.output)
    table.begin()
    names = options.only or [name for name, each in EXPERIMENTS.items() if each.devices == 1]
    results = [perform(name, options, table) for name in names]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

"""How the experiments of one benchmark are run: one after the other, each in its time, all that it started killed."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bench.gpu.running.place import Place
from bench.gpu.running.rows import Table
from nvshare import simgpu

GIB = 1 << 30
SIMULATED_UNIT = 32 << 20
"""What stands for 1 GiB on a simulated device."""
LOG_TAIL_BYTES = 200_000


class OutOfTimeError(Exception):
    """An experiment took longer than it may."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One of the names of ``--only``."""

    run: Callable[[Place, Table], None]
    most_seconds: int
    devices: int = 1


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


def perform(name: str, experiment: Experiment, options: argparse.Namespace, table: Table) -> bool:
    """One experiment; false when it failed."""
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
            keep_logs(logs, name, table.folder / f"{table.name}.log")
    seconds = time.monotonic() - begin
    if failure:
        print(f"{name} failed: {failure}", file=sys.stderr, flush=True)
        short = " ".join(failure.split())
        table.row(name, "FAILED", "", "", short[:200] + (" ... " if len(short) > 500 else "") + short[200:][-300:], {})
    print(f"# {name}: {seconds:.0f} s", flush=True)
    return not failure


def main(
    description: str, table_name: str, experiments: Mapping[str, Experiment], prepare: Callable[[], None] | None = None
) -> None:
    """The command line of a benchmark; ``prepare`` is called first where there is a GPU. Exits."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=experiments, help="these, in this order")
    parser.add_argument("--simulate", action="store_true", help="on simulated devices, much smaller")
    parser.add_argument("--simulated-memory", default="24GiB/768MiB", help="of each simulated device")
    options = parser.parse_args()
    if prepare is not None and not options.simulate:
        prepare()
    table = Table(options.output, table_name)
    table.begin()
    names = options.only or [name for name, each in experiments.items() if each.devices == 1]
    results = [perform(name, experiments[name], options, table) for name in names]
    sys.exit(0 if all(results) else 1)
